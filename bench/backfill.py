"""`python -m bench backfill`: the history of a coding agent, imported: killed halfway, resumed, and repeated.

An archive of Claude Code is generated: sessions of several projects with prompts, replies, tool calls and results, a tenth of the
sessions forked from another, and a secret in each session. The import runs as a process. Once half of it is stored, it is killed
with SIGKILL and run again; a third run must add nothing. Messages a second are those of the resumed run."""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import signal
import string
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from keepstone import Memory

TOPICS = ("billing", "search", "login", "mail", "export", "queue", "cache", "report", "ledger", "upload")
VERBS = ("fails with a timeout", "needs a retry", "is slow after the deploy", "returns the wrong total", "loses its session")
TOOLS = ("Bash", "Read", "Edit", "Grep")
UNKNOWN = "a-type-of-next-year"


def main(argv: list[str]) -> int:
    """Measure and print one line and one JSON object."""
    parser = argparse.ArgumentParser(prog="bench backfill", description=__doc__.partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=400)
    parser.add_argument("--messages", type=int, default=60_000, help="messages and steps of all sessions")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="ks"))
    try:
        result = measure(folder, options.sessions, options.messages)
    finally:
        shutil.rmtree(folder)
    if not options.json:
        print(
            f"{result['messages']:,} messages of {result['sessions']} sessions: {result['messages_a_second']:,.0f} a second "
            f"({result['cpu_ms_a_message']:.2f} ms of CPU each); killed at {result['stored_at_kill']:,}, "
            f"{result['lost']} lost, {result['doubled']} doubled, {result['added_by_repeat']} added by a repeat"
        )
    print(json.dumps(result))
    return 0 if not (result["lost"] or result["doubled"] or result["added_by_repeat"] or result["secrets"]) else 1


def measure(folder: Path, sessions: int, messages: int) -> dict[str, Any]:
    """Import a generated archive with a kill halfway, again, and once more; compare what is stored with what was said."""
    expected, secrets = write_archive(folder / "projects", sessions, messages)
    total = sum(expected.values())
    store = folder / "memory.db"
    stored = _kill_halfway(folder, store, total // 2)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    resumed = run_import(folder, store)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    again = run_import(folder, store)
    found = read_store(store)
    text = "\n".join(content for _, content in found)
    new = total - stored
    return {
        "bench": "backfill", "sessions": sessions, "messages": total, "stored_at_kill": stored,
        "messages_a_second": new / seconds, "cpu_ms_a_message": cpu * 1000 / max(new, 1),
        "lost": sum((expected - Counter(time for time, _ in found)).values()),
        "doubled": sum((Counter(time for time, _ in found) - expected).values()),
        "added_by_repeat": sum(count for action, count in again["counts"].items() if action not in ("duplicate", "skipped")),
        "secrets": sum(secret in text for secret in secrets), "resumed": resumed["counts"], "skipped": resumed["skipped"],
    }  # fmt: skip


def _kill_halfway(folder: Path, store: Path, wanted: int) -> int:
    """Kill an import once so many messages are stored; how many are."""
    with subprocess.Popen(_command(folder, store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            if store.exists() and len(read_store(store, wanted)) >= wanted:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.05)
    return len(read_store(store))


def _command(folder: Path, store: Path) -> list[str]:
    return [sys.executable, "-m", "keepstone", "import", "claude-code", str(folder / "projects"), "--db", str(store), "--json"]


def run_import(folder: Path, store: Path) -> dict[str, Any]:
    """Run the import to its end; its answer."""
    done = subprocess.run(_command(folder, store), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def read_store(store: Path, most: int = 10**9) -> list[tuple[str, str]]:
    """The times, of which each message has one of its own, and contents of the imported messages, of all projects."""
    found: list[tuple[str, str]] = []
    with Memory.open(store, embedder="none") as memory:
        for scope in memory.scopes():
            view, cursor = memory.with_scope(agent=scope.scope.agent, user=scope.scope.user), None
            while len(found) < most:
                page = view.list(kind="message", limit=100, cursor=cursor)
                found += [(record.occurred_at.isoformat(), record.content) for record in page]
                cursor = page.cursor
                if cursor is None:
                    break
    return found


# -- the archive -----------------------------------------------------------------------------------------------------------
def write_archive(root: Path, sessions: int, messages: int, seed: int = 5) -> tuple[Counter[str], list[str]]:
    """Write an archive; the times of the messages that an import stores, and the secrets in it."""
    chance = random.Random(seed)
    expected: Counter[str] = Counter()
    secrets: list[str] = []
    turns = max(-(-messages // (sessions * 4)), 1)
    copied: list[str] = []
    at = datetime(2025, 3, 1, 9, tzinfo=UTC)
    for number in range(sessions):
        session = str(UUID(int=chance.getrandbits(128), version=4))
        folder = f"/home/dana/project-{number % 7}"
        secrets.append("ghp_" + "".join(chance.choices(string.ascii_letters + string.digits, k=36)))
        lines: list[str] = [json.dumps({"type": "file-history-snapshot", "messageId": session, "snapshot": {}})]
        if number % 10 == 9:  # a session that goes on from the one before repeats it
            lines += [line.replace('"sessionId": "', f'"sessionId": "{session}", "was": "') for line in copied]
        own: list[str] = []
        for turn in range(turns):
            at += timedelta(minutes=1)
            own += _turn(chance, session, folder, at, turn, secrets[-1] if turn == 0 else "", expected)
        lines += [*own, json.dumps({"type": UNKNOWN, "sessionId": session})]
        copied = own
        path = root / folder.replace("/", "-") / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return expected, secrets


def _turn(
    chance: random.Random, session: str, folder: str, at: datetime, turn: int, secret: str, expected: Counter[str]
) -> list[str]:
    """A prompt, a tool call with its result, and a reply."""
    topic, verb, tool = chance.choice(TOPICS), chance.choice(VERBS), chance.choice(TOOLS)
    asked = f"In step {turn} the {topic} service {verb}, look into port {chance.randint(1000, 9999)}. {secret}".strip()
    call = f"toolu_{chance.getrandbits(64):016x}"
    given = {"command": f"grep -rn {topic} src | head -{turn}"}
    reply = [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": f"The {topic} service {verb}: fixed."}]
    blocks: tuple[tuple[str, Any], ...] = (
        ("user", asked),
        ("assistant", [{"type": "tool_use", "id": call, "name": tool, "input": given}]),
        ("user", [{"type": "tool_result", "tool_use_id": call, "content": f"src/{topic}.py:{turn}: def {topic}()"}]),
        ("assistant", reply),
    )
    lines = []
    for number, (role, content) in enumerate(blocks):
        id = str(UUID(int=chance.getrandbits(128), version=4))
        said_at = (at + timedelta(seconds=number)).isoformat()
        expected[said_at] += 1
        entry = {
            "type": role, "uuid": id, "sessionId": session, "cwd": folder, "isSidechain": False, "version": "2.1.42",
            "timestamp": said_at, "message": {"role": role, "content": content},
        }  # fmt: skip
        lines.append(json.dumps(entry))
    return lines
