"""Adapters of external vector indexes: Chroma, Qdrant, Pinecone. They hold vectors and hashes, never a text or a name."""
