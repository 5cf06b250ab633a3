"""Records in PostgreSQL with pgvector: tenant first in every key, row-level security, one round trip where one will do."""
