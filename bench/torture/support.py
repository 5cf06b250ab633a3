"""Helpers of the rows: small disks, and a check of the whole store.

Rows that need what a machine may not have (a mount, a program) raise `Missing` with the reason.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.torture.verdict import Verdict
from keepstone import Memory


class Unavailable(Exception):
    """The machine does not have, or does not allow, what a part of a row needs; the text is the reason."""


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, mounted at a folder that is made for it."""
    folder.mkdir(parents=True)
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        mounted = subprocess.run(command, capture_output=True, check=False, text=True)
    except OSError as error:
        raise Unavailable(f"no file system can be mounted here: {error}") from None
    if mounted.returncode:
        folder.rmdir()
        raise Unavailable(f"this machine does not allow mounting a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(ballast: Path) -> None:
    """Take all the room that is left on a disk, to the last block."""
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def check_store(verdict: Verdict, where: str | Path, label: str = "", tenants: tuple[str, ...] = ("local",)) -> None:
    """Add the findings of doctor and of the audit log to a verdict."""
    with Memory.open(where, embedder="none") as memory:
        findings = memory.upkeep.doctor().findings
        reports = [memory.with_scope(tenant=tenant).audit.verify() for tenant in tenants]
    verdict.drift += len(findings) + sum(not report.whole for report in reports)
    said = f"{label}: " if label else ""
    verdict.problems += [f"{said}doctor, {each.check}: {each.problem}" for each in findings]
    verdict.problems += [f"{said}the audit log: {report.problem}" for report in reports if not report.whole]
