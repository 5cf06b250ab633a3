"""Adapters that turn text into vectors, one file each. They import recollect.ports, types, errors and their driver."""
