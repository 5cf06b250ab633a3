"""Coding agents as clients: their configuration (`connect`), their hooks, and the project that a folder belongs to."""
