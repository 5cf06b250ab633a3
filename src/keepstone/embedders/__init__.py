"""Adapters that turn text into vectors, one file each. They import keepstone.ports, types, errors and their driver."""
