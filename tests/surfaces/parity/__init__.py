"""The same behaviours over every surface."""
