"""`python -m bench hooks`: what hooks of a coding agent cost: CPU of each hook process, and the tokens it adds to the prompt.

A scratch home is filled with a project of 40 turns, captured by hooks as the client would run them. Then a second session of as
many turns is measured. The first hook of all also starts the resident process, whose own CPU until then is a row too."""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

EVENTS = ("session-start", "prompt", "pre-compact", "stop", "session-end")
TOPICS = ("billing", "search", "login", "mail", "export", "queue", "cache", "report")
CHARS_PER_TOKEN = 4
RESUMED_TURNS = 10


def main(argv: list[str]) -> int:
    """Measure and print the table and one JSON object."""
    parser = argparse.ArgumentParser(prog="bench hooks", description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=40, help="turns of the session")
    parser.add_argument("--repeats", type=int, default=10, help="runs of each hook whose CPU is measured")
    parser.add_argument("--json", action="store_true", help="only the JSON object")
    options = parser.parse_args(argv)
    home = Path(tempfile.mkdtemp(prefix="ks", dir="/tmp"))
    try:
        result = measure(home, options.turns, options.repeats)
    finally:
        for lock in home.rglob("*.lock"):
            os.kill(int(lock.read_text()), signal.SIGKILL)
        shutil.rmtree(home)
    if not options.json:
        print("| hook | CPU of the hook | tokens added |\n|---|---|---|")
        for event in EVENTS:
            row = result["hooks"][event]
            print(f"| `{event}` | {row['cpu_ms']:.0f} ms | {row['tokens_median']:.0f}, at most {row['tokens_max']} |")
        print(f"| the first of all | {result['first_hook_cpu_ms']:.0f} ms, and {result['resident_start_cpu_ms']:.0f} ms once | |")
        print(f"a session of {options.turns} turns: {result['tokens_of_the_session']} tokens added")
        print(f"of what the model was sent, {result['stable_prefix_share']:.1%} was the same as in the request before")
    print(json.dumps(result))
    return 0


def measure(home: Path, turns: int, repeats: int) -> dict[str, Any]:
    """CPU and tokens of every hook over one session of a project with an earlier session."""
    repository = home / "shop"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    earlier, now = Session(home, repository, "earlier"), Session(home, repository, "now")
    first = earlier.run("session-start")[0]
    resident = _cpu_ms(next(int(lock.read_text()) for lock in home.rglob("*.lock")))
    for turn in range(turns):
        earlier.say(turn)
        earlier.run("stop")
    rows: dict[str, list[tuple[float, int]]] = {event: [] for event in EVENTS}
    block = now.run("session-start")[1]
    total, talk, stable, sent = len(block), "", 0, 0
    before = ""  # what the model was sent the last time
    for turn in range(turns):
        if turn % RESUMED_TURNS == RESUMED_TURNS - 1:  # the client is resumed; halfway it compacts the conversation
            again = now.run("session-start", source="compact" if turn + 1 == turns // 2 else "resume")[1]
            total += len(again)
            block = again or block
        asked = f"Which port does the {TOPICS[turn % len(TOPICS)]} service listen on?"
        cpu, added = now.run("prompt", asked)
        rows["prompt"].append((cpu, len(added) // CHARS_PER_TOKEN))
        total += len(added)
        talk += f"{asked}\n{added}\n"
        prompt = f"{block}\n{talk}"
        stable += next((at for at, (one, two) in enumerate(zip(before, prompt, strict=False)) if one != two), len(before))
        sent, before = sent + len(before), prompt
        talk += f"{now.say(turn)}\n"
        rows["stop"].append((now.run("stop")[0], 0))
    for number in range(repeats):
        for event in ("session-start", "pre-compact", "session-end"):
            cpu, added = Session(home, repository, f"repeat {number}").run(event)
            rows[event].append((cpu, len(added) // CHARS_PER_TOKEN))
    hooks = {
        event: {
            "cpu_ms": statistics.median(cpu for cpu, _ in measured),
            "cpu_ms_max": max(cpu for cpu, _ in measured),
            "tokens_median": statistics.median(tokens for _, tokens in measured),
            "tokens_max": max(tokens for _, tokens in measured),
        }
        for event, measured in rows.items()
    }
    return {
        "bench": "hooks", "turns": turns, "hooks": hooks, "first_hook_cpu_ms": first, "resident_start_cpu_ms": resident,
        "tokens_of_the_session": total // CHARS_PER_TOKEN, "stable_prefix_share": stable / max(sent, 1),
    }  # fmt: skip


def _cpu_ms(process: int) -> float:
    """The CPU that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


class Session:
    """A session of the client: a transcript, and hooks as processes."""

    def __init__(self, home: Path, folder: Path, name: str) -> None:
        self._home, self._folder, self._name = home, folder, name
        self._transcript = home / f"{name}.jsonl"

    def say(self, turn: int) -> str:
        """Append a turn to the transcript; what the model says in it."""
        topic = TOPICS[turn % len(TOPICS)]
        texts = {
            "user": f"In turn {turn} we moved the {topic} service to port {9000 + turn}.",
            "assistant": f"Done, {topic} has moved.",
        }
        with self._transcript.open("a") as file:
            for role, text in texts.items():
                entry = {"type": role, "uuid": f"{self._name}-{turn}-{role}", "message": {"role": role, "content": text}}
                file.write(json.dumps(entry) + "\n")
        return texts["assistant"]

    def run(self, event: str, prompt: str = "", source: str = "startup") -> tuple[float, str]:
        """CPU of the hook's process in milliseconds, and what it adds to the prompt."""
        payload = {
            "session_id": self._name, "cwd": str(self._folder), "transcript_path": str(self._transcript), "prompt": prompt,
            "hook_event_name": event, "source": source,
        }  # fmt: skip
        environment = {**os.environ, "HOME": str(self._home), "XDG_RUNTIME_DIR": str(self._home), "KEEPSTONE_HOOK_SECONDS": "60"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "keepstone", "hook", event]
        done = subprocess.run(command, input=json.dumps(payload), env=environment, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return cpu * 1000, json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""
