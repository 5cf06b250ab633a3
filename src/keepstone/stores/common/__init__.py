"""Rules that every engine shares, over named SQL statements: records, audit log, lineage, maintenance."""
