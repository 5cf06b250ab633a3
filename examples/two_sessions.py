"""Two sessions, one memory: the first is killed with SIGKILL right after it learned something, the second knows it all.

    python examples/two_sessions.py              # in a temporary folder
    python examples/two_sessions.py --db my.db   # keep the file

Each session is a process of its own. No key, no network, no server.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.text import Text

from keepstone import Memory

PLAIN = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
console = Console(highlight=False, soft_wrap=True, color_system=None if PLAIN else "auto")
TODAY = datetime.now(UTC)
THEN = TODAY - timedelta(days=100)
SIGNALS = {"cosine": "similarity", "coverage": "words covered", "similarity": "relevance"}


def say(*parts: str | tuple[str, str]) -> None:
    console.print(Text.assemble(*parts))


def heading(title: str, detail: str) -> None:
    say("\n", (title, "bold magenta"), (f"  {detail}", "dim"))


def day(at: datetime) -> str:
    return f"{at:%d %b %Y}"


def learn(memory: Memory, content: str, **about: object) -> None:
    """Remember one thing and print its receipt."""
    receipt = memory.remember(content, **about)  # type: ignore[arg-type]
    print_receipt(content, receipt.action, receipt.id, receipt.reasons)


def print_receipt(content: str, action: str, id: str | None, reasons: tuple[str, ...]) -> None:
    style = {"added": "green", "duplicate": "yellow"}.get(action, "cyan")
    say("  ", (f"{action:<12}", f"bold {style}"), f"{content:<42}", (f"  {id}", "dim"))
    for reason in reasons:
        say(" " * 14, (f"└ {reason}", "dim"))


def first(db: str, done: int) -> None:
    """Session 1: learn, tell the parent that the last receipt is out, and wait for the kill."""
    heading("Session 1", f"process {os.getpid()} learns about Dana")
    memory = Memory.open(db, user="dana")
    learn(memory, "The user's name is Dana Reyes.", importance=0.9)
    learn(memory, "Dana prefers dark mode in every editor.", tag="preferences")
    learn(memory, "Dana is allergic to peanuts.", tag="health", importance=1.0)
    learn(memory, "Dana lives in Lisbon.", key="dana.home", occurred_at=TODAY - timedelta(days=300))
    receipt = memory.set("dana.account", "KX-20417-883", tag="account")
    print_receipt("dana.account = KX-20417-883", receipt.action, receipt.id, receipt.reasons)
    say(("\n  the same again, the same in other words, and a fact that changed:", "dim"))
    learn(memory, "Dana is allergic to peanuts.", tag="health", importance=1.0)
    learn(memory, "In every editor, Dana prefers dark mode.", tag="preferences")
    learn(memory, "Dana lives in Porto.", key="dana.home", occurred_at=TODAY - timedelta(days=30))
    sys.stdout.flush()
    os.write(done, b".")
    time.sleep(60)  # the kill comes first


def second(db: str) -> None:
    """Session 2: another process, the same file."""
    heading("Session 2", f"process {os.getpid()} opens the same file")
    times: list[float] = []
    with Memory.open(db, user="dana") as memory:
        for question in (
            "What is the user's name?",
            "Does Dana want dark mode?",
            "Is Dana allergic to anything?",
            "Where does Dana live now?",
        ):
            ask(memory, question, times)
        ask(memory, "How tall is the Eiffel Tower?", times)
        ask(memory, "Where does Dana live?", times, as_of=THEN)

        say("\n  ", ("by key, exactly  ", "bold"), "dana.account = ", (str(memory.value("dana.account")), "bold green"))

        say("\n  ", ("how it changed   ", "bold"), ("dana.home", "dim"))
        home = next(record for record in memory.list() if record.key == "dana.home")
        for version in memory.history(home.id):
            until = f"until {day(version.valid_to)}" if version.valid_to else "until today"
            say(f"    {version.version}. {version.content:<24}", (f"from {day(version.valid_from)} {until}", "dim"))

        say("\n  ", ("ready for a prompt", "bold"))
        for line in memory.context("What should I know about Dana?").splitlines():
            say("    ", (line, "dim" if line.startswith("<") else ""))
    size = sum(path.stat().st_size for path in Path(db).parent.glob(Path(db).name + "*"))
    say(
        "\n  ",
        (f"recall took {statistics.median(times) * 1000:.1f} ms", "bold green"),
        (f"  median of {len(times)}; the first, from disk, {times[0] * 1000:.1f} ms", "dim"),
    )
    say("  ", ("file  ", "dim"), db, (f"  {size / 1024:.0f} KiB", "dim"))


def ask(memory: Memory, question: str, times: list[float], as_of: datetime | None = None) -> None:
    """Recall, and print the best hits with the parts of their scores."""
    start = time.perf_counter()
    found = memory.recall(question, limit=1, as_of=as_of)
    times.append(time.perf_counter() - start)
    when = f"  as of {day(as_of)}" if as_of else ""
    say("\n  ", ("? ", "bold cyan"), (question, "bold"), (when, "cyan"))
    if not found:
        say("    ", ("nothing", "yellow"), (f"  none of the {found.considered} memories is about this", "dim"))
    for hit in found:
        say("    ", (f"{hit.score:.2f}", "cyan"), f"  {hit.content}")
        parts = (f"{words} {hit.signals[name]:.2f}" for name, words in SIGNALS.items())
        say(" " * 10, (" · ".join(parts), "dim"))


def both(db: str) -> int:
    """Run session 1, kill it, run session 2."""
    say(("keepstone", "bold"), "  two sessions, one memory")
    here = [sys.executable, __file__, "--db", db]
    reader, writer = os.pipe()
    one = subprocess.Popen([*here, "--learn", str(writer)], pass_fds=[writer])
    os.close(writer)
    learned = os.read(reader, 1)  # empty if session 1 failed before its last receipt
    one.send_signal(signal.SIGKILL)
    code = one.wait()
    if not learned or code != -signal.SIGKILL:
        say(("session 1 failed before it was killed", "bold red"))
        return 1
    say("\n  ", ("✗ kill -9", "bold red"), f"  process {one.pid} ended by SIGKILL", ("  it never reached close()", "dim"))
    return subprocess.run([*here, "--recall"], check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--db", help="keep the store in this file (default: a temporary folder)")
    parser.add_argument("--learn", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--recall", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.learn is not None:
        first(given.db, given.learn)
    elif given.recall:
        second(given.db)
    elif given.db:
        return both(os.path.abspath(given.db))
    else:
        with tempfile.TemporaryDirectory(prefix="keepstone-") as folder:
            code = both(os.path.join(folder, "memory.db"))
            say(("  the folder is deleted now; --db FILE keeps it\n", "dim"))
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
