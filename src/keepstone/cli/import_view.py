"""How an import is told: a table for a person, a line of JSON for each entry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from keepstone.cli.output import Output
from keepstone.cli.show import counted
from keepstone.errors import ConfigurationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.importing import ImportSummary, Outcome

_MEANINGS = {
    "new": "would be imported",
    "added": "added",
    "updated": "had changed there, and were updated",
    "superseded": "had changed there, and superseded what was here",
    "merged": "said the same as another, and were merged with it",
    "duplicate": "were there already",
    "redacted": "added without the sensitive data in them",
    "quarantined": "read like instructions, and wait for a review",
    "skipped": "had nothing to import",
    "refused": "could not be imported",
}
_STYLES = {"refused": "bold red", "quarantined": "yellow", "redacted": "yellow"}
_SHOWN = 20


@contextmanager
def reporting(path: str | None) -> Iterator[Callable[[Outcome], None] | None]:
    """What is told of every entry, written to a file as it happens; None where no file is wanted."""
    if path is None:
        yield None
        return
    try:
        private = partial(os.open, mode=0o600)  # it tells what was imported
        file = open(path, "w", encoding="utf-8", newline="\n", buffering=1, opener=private)  # noqa: SIM115
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot write the report {path!r:.100} ({said}): choose another path.") from None
    with file:
        yield lambda outcome: print(json.dumps(document(outcome), ensure_ascii=False), file=file)


def summary(out: Output, done: ImportSummary, path: str, report: str | None) -> None:
    """What became of the entries, and what is wrong with those that were refused."""
    head = "would import" if done.dry_run else "imported"
    out.line(
        (head, "bold green" if not done.refused else "bold yellow"),
        f"  {counted(done.entries, 'entry', 'entries')} of {path} ({done.format})",
    )
    width = max((len(str(count)) for count in done.counts.values()), default=1)
    for action, meaning in _MEANINGS.items():
        if count := done.counts.get(action, 0):
            out.line(f"    {count:>{width}}  ", (f"{action:<12}", _STYLES.get(action, "")), meaning)
    for each in done.problems[:_SHOWN]:
        out.line(f"    {each.file}, {each.where}: {each.reason}")
    if done.refused > _SHOWN:
        out.line(f"    … and {done.refused - _SHOWN} more{'' if report else ': --report FILE names all of them'}")
