"""Starts the MCP server where keepstone is installed already; the bundle itself starts it with uvx."""

import sys

from keepstone.cli import main

sys.exit(main(["mcp", *sys.argv[1:]]))
