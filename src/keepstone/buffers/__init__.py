"""Buffers of recent messages. Everything in them is a copy of what the store holds."""
