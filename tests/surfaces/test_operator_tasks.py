"""Everyday tasks of an operator, each by its command and on its page, on one store with a server."""

from __future__ import annotations

import shlex
from pathlib import Path

from keepstone import Memory
from tests.cli.support import Cli
from tests.server.dashboard import EVERYTHING, hold, text, visitor
from tests.server.running import running

# (task, command, what it prints, page, what that says); {…} are ids of the store below.
TASKS = (
    ("see who has memories", "users", "dana", "/users", "marco"),
    ("read a user's memories", "list", "Dana drinks tea.", "/memories", "Dana drinks tea."),
    ("sort them by when they happened", "list --order occurred", "Porto", "/memories?order=occurred", "Porto"),
    ("search them", "search tea", "Dana drinks tea.", "/memories?q=tea", "Dana drinks tea."),
    ("see what an agent recalls", "recall tea", "Dana drinks tea.", "/recall?query=tea", "Dana drinks tea."),
    ("see why", "why tea {tea}", "recalled", "/memories/{tea}?query=tea", "recalled at rank"),
    ("open one memory", "get {tea}", "Dana drinks tea.", "/memories/{tea}", "Dana drinks tea."),
    ("see its history", "history {tea}", "Dana drinks tea.", "/memories/{tea}", "1 version"),
    ("see what a prompt gets", "context tea", "Dana drinks tea.", "/recall?query=tea", "Dana drinks tea."),
    ("count what there is", "stats", "fact", "/", "Memories"),
    ("list the names in it", "entities", "Dana", "/map", "Dana"),
    ("list conversations", "sessions", "standup", "/conversations", "standup"),
    ("correct a memory", "update {row} 'Dana rows on Mondays.'", "updated", "/memories/{row}", "Dana rows on Mondays."),
    ("change a tag", "update {row} --tag sport", "updated", "/memories?tag=sport", "Dana rows on Mondays."),
    ("pin a memory", "pin {tea}", "updated", "/memories", "pinned"),
    ("bury a memory", "bury {row}", "updated", "/memories", "buried"),
    ("see what waits for approval", "review", "Dana sails.", "/review", "Dana sails."),
    ("approve all of it", "review approve --all", "0 left open", "/review", "Nothing to review"),
    ("archive a memory", "upkeep archive {row}", "archived", "/memories?tag=sport", "No matching memories"),
    ("bring it back", "upkeep restore {row}", "restored", "/memories?tag=sport", "Dana rows on Mondays."),
    ("check health", "health", "untrusted", "/health", "Health"),
    ("run maintenance as a trial", "upkeep run --dry-run", "", "/maintenance", "Maintenance"),
    ("read the audit log", "audit", "remember", "/audit", "remember"),
    ("see failed work", "jobs", "", "/jobs", "Jobs"),
    ("take a copy away", "export copy.jsonl", "exported", "/transfer", "Export"),
    ("see who has keys", "keys list", "boss", "/keys", "boss"),
    ("forget a memory for good", "forget {row}", "forgotten", "/memories?tag=sport", "No matching memories"),
)  # fmt: skip


def test_every_task_has_a_command_and_a_page(cli: Cli, tmp_path: Path) -> None:
    with Memory.open(tmp_path / "keepstone.db", user="dana") as memory, running(memory) as server:
        ids = {
            "tea": memory.remember("Dana drinks tea.").id or "",
            "row": memory.remember("Dana rows on Sundays.").id or "",
        }
        memory.remember("Porto", key="city", occurred_at="2026-01-01")
        memory.ingest([{"role": "user", "content": "The export is slow.", "name": "Dana"}], session="standup", extract=False)
        memory.with_scope(user="marco").remember("Marco leads billing.")
        hold(memory, "Dana sails.")
        at = visitor(server, server.key("boss", rights=(*EVERYTHING, "operator"), service=True))
        at.send("/scope", {"user": "dana", "agent": "default"})
        wrong = []
        for task, command, printed, page, says in TASKS:
            arguments = [part.format(**ids) for part in shlex.split(command)]
            done = cli(*arguments, *(() if command in ("users", "keys list") else ("--user", "dana")))
            shown = at.http.get(page.format(**ids))
            if done.code not in (0, 1) or printed not in done.out:
                wrong.append(f"{task}: keepstone {command} printed {done.out[:200]!r} {done.err[:200]!r}")
            if shown.status_code != 200 or says not in text(shown):
                wrong.append(f"{task}: {page} says {text(shown)[-300:]!r}")
        assert len(TASKS) >= 25
        assert wrong == []
