"""Where records live: one folder an engine, each with store.py, schema.sql, queries.sql and migrations/."""
