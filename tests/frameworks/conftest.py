"""Tests that use agent frameworks for real. Their versions clash, so each folder is run in an environment of its own, which
KEEPSTONE_FRAMEWORKS names; without it none of them is collected. The source packages whose own suites are run as well are
unpacked in the folder that KEEPSTONE_SUITES names. `make test` sees to all of it."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
ASKED = os.environ.get("KEEPSTONE_FRAMEWORKS")

collect_ignore = [each.name for each in HERE.iterdir() if each.is_dir() and each.name != ASKED]
if ASKED is None:
    collect_ignore.append("test_guides.py")
if ASKED == "crewai":  # it would report to its maker, and wait for an answer
    os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OTEL_SDK_DISABLED": "true"}
