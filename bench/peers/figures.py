"""Other memories' figures compared with ours, and shown."""

from __future__ import annotations

import subprocess
from typing import Any

from bench.measure import ratio, table
from bench.peers.environments import ROOT

OURS = "keepstone"


def ratios(found: dict[str, Any]) -> dict[str, Any]:
    """How many times ours goes into theirs: above 1 ours is faster, or smaller."""
    made: dict[str, Any] = {}
    for kind, figures in found.get("add", {}).items():
        made.setdefault("add", {})[kind] = _over(figures, "wall_p50_ms")
    for kind, figures in found.get("bulk", {}).items():
        made.setdefault("bulk", {})[kind] = _over(figures, "per_s", inverse=True)
    for name, clock in (("recall", "wall_p50_ms"), ("cpu_recall", "cpu_p50_ms")):
        for kind, sizes in found.get("recall", {}).items():
            for size, figures in sizes.items():
                made.setdefault(name, {}).setdefault(kind, {})[size] = _over(figures, clock)
    for key, figures in found.get("many", {}).items():
        made.setdefault("many", {})[key] = _over(figures, "wall_p50_ms")
    for part, field in (("start", "process_ms"), ("size", "install_mb")):
        if part in found:
            made[part] = _over(found[part], field)
    for part in ("resident_mb", "disk_mb"):
        for size, figures in found.get(part, {}).items():
            made.setdefault(part, {})[size] = _over({name: {"mb": mb} for name, mb in figures.items()}, "mb")
    return made


def _over(figures: dict[str, dict[str, Any]], field: str, inverse: bool = False) -> dict[str, float]:
    ours = figures.get(OURS, {}).get(field)
    if not ours:
        return {}
    others = {name: each[field] for name, each in figures.items() if name != OURS and each.get(field)}
    return {name: ratio(ours, value) if inverse else ratio(value, ours) for name, value in others.items()}


def show(found: dict[str, Any]) -> None:
    """The figures as tables; three times with a slash between them are p50 / p95 / p99."""
    for kind, figures in found.get("add", {}).items():
        table(f"durable add, one at a time, {kind} embedder", figures)
    for kind, figures in found.get("bulk", {}).items():
        table(f"add in bulk, {kind} embedder", figures)
    for kind, sizes in found.get("recall", {}).items():
        for size, figures in sizes.items():
            table(f"recall at {size} memories, {kind} embedder", figures)
            table("  the right text among five", found["found_at_5"][kind][size])
    for key, figures in found.get("many", {}).items():
        table(f"recall, {key} scopes", figures)
    for part in ("start", "size", "resident_mb", "disk_mb", "durable", "ratios", "left_out"):
        if found.get(part):
            table(part.replace("_", " "), found[part])


def commit() -> str:
    """What is measured, as git names it."""
    try:
        told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return told.stdout.strip() or "unknown"
