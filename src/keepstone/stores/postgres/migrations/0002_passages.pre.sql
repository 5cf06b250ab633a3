-- A long text has a vector and words for each passage: migrations/0005_passages.sql of SQLite says how they are numbered.
ALTER TABLE vector ADD COLUMN start integer, ADD COLUMN stop integer;
