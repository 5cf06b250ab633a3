"""Working memory, tasks and their episodes, and the context made of all kinds of memory."""
