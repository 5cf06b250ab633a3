"""Chat models: one file an adapter; `registry.py` finds them by name."""
