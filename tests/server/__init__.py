"""The memory server on real sockets: HTTP, MCP, the dashboard in a browser, the command that serves."""
