"""Benchmarks of keepstone: speed, torture, dedupe. Run as `python -m bench …`; they use the public API only."""
