"""Scopes held in memory for ranking: columns, postings, the cache that bounds and refreshes them."""
