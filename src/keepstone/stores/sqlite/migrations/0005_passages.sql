-- A long text has a vector and words for each passage. Its first passage has the record's row, with where it ends; a further one has
-- a row of its own with where it stands in the text. The number of a further passage is negative: the record's, then its place in
-- 14 bits. Texts that are one passage stay as they are.
ALTER TABLE vector ADD COLUMN start INTEGER;
ALTER TABLE vector ADD COLUMN stop INTEGER;
CREATE INDEX vector_passages ON vector (sequence) WHERE sequence < 0;
