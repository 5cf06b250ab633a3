"""Chat models: one file an adapter; `registry.py` finds them by name. Imports: keepstone.chat and errors."""
