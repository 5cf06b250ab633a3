"""What keeps a store in order: forgetting, re-embedding, moving records in and out."""
