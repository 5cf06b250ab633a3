"""A memory on a server, with the verbs of Memory over HTTP."""
