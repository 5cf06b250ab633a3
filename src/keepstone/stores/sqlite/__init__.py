"""The embedded store: one SQLite file, through apsw. Imports: ports, types, errors, filters, times, words, apsw."""
