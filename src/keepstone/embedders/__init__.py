"""Adapters that turn text into vectors, one file each. They import keepstone.ports.stores, types, errors and their driver."""
