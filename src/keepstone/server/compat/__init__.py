"""Other memories' paths, for programs that were written for them: `mem0.py` answers mem0's own client."""
