"""Adapters for agent frameworks, one file each; a file is imported by whoever has its framework installed."""
