"""Security: what must never be said, what hostile input may cost, and what is left lying about."""
