"""MemoryAgent, driven over HTTP through the official clients against a local endpoint."""
