"""The fault table, row by row: what is broken on purpose, and what must be there afterwards: `python -m bench torture`."""

from __future__ import annotations

from bench.torture.children import ForkServer, Lines, environment
from bench.torture.command import main
from bench.torture.kill import Torture
from bench.torture.verdict import Options, Verdict

__all__ = ["ForkServer", "Lines", "Options", "Torture", "Verdict", "environment", "main"]
