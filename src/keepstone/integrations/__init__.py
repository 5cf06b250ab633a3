"""Adapters for agent frameworks, one file each, which needs its framework installed."""
