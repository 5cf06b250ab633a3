"""keepstone beside other memories: each through its own public interface, in an environment of its own, by turns.

`environments` makes the environments, `serving` is the child's side of the talk (one process a memory) and `turns` the
parent's, `use_*` are the memories, `speed` and `quality` ask them, `figures` compares.
"""
