"""Protocols that adapters implement, and the values that cross them."""
