"""The write path: guard, deduplicate, reconcile, commit. Pure but for flow.py."""
