"""The memory server: HTTP API, MCP, dashboard. Imports: the facade, FastAPI and friends (extra "server")."""
