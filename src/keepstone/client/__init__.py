"""keepstone over HTTP: Client and AsyncClient, with the verbs of Memory.

The `aio` files beside `aio.py` are made by tools/make_client_aio.py from their twins.
"""
