"""The HTTP API below /v1. A route checks rights, calls one verb and answers with its result."""
