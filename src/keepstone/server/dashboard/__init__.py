"""The dashboard: server-rendered pages at /. The script only makes them faster to use."""
