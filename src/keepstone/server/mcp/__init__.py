"""The MCP server, over stdio and over HTTP."""
