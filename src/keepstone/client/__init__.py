"""keepstone over HTTP: Client and AsyncClient, with the verbs of Memory. Imports: values, the flows' values, httpx2 late.

The `aio` files beside `aio.py` are made by tools/make_client_aio.py from their twins.
"""
