"""What keepstone itself asks of a chat model: each prompt with its schema, its version and the reader of its answer. Pure."""
