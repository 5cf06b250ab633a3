"""Compatibility routes: the paths of other memory services, answered from keepstone."""
