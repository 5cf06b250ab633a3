"""Chat model adapters, driven over HTTP through the official clients against a local endpoint."""
