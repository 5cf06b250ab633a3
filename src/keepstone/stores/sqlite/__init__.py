"""The embedded store: one SQLite file, through apsw."""
