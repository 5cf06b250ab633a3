"""An index of vectors beside the store: keeping it in step, searching it, finding where it differs.

The store is the truth. Whatever is in the index can be made again from it; whatever the index says is looked up in it.
"""
