"""The MCP server: keepstone's memory for every client that speaks the Model Context Protocol, over stdio and over HTTP."""
