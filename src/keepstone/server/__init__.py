"""The memory server: HTTP API, MCP, dashboard."""
