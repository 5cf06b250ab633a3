"""Keeps an external vector index in step with the store, searches it, and finds where it differs.

The index can be rebuilt from the store at any time, and every record it returns is read from the store.
"""
