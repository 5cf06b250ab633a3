"""The HTTP API: one file a group of verbs. A route asks for rights, calls one verb and answers with its document."""
