"""Concurrent callers, and a check that their answers fit one order. Run with `python -m bench history`.

Processes remember, update, forget, get and recall the same few keys, 8 of them on one file, and as many through 3 servers on one
PostgreSQL, while processes (of a file) or servers are killed with SIGKILL and started again. Every call is written down with its
beginning, its end and its answer; linearizable.py then looks for an order of each key's calls that explains every answer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.linearizable import Call, violation
from bench.measure import progress
from bench.report.stamp import result_head
from bench.torture.children import environment
from keepstone import Client, KeepstoneError, Memory
from keepstone.errors import NotFound
from tests.server_processes import PostgresServer, _free_port

WORDS = ("tractor", "piano", "kayak", "telescope", "violin", "lantern", "anvil", "globe")
PATIENCE = 120.0


# -- a process that calls -----------------------------------------------------------------------------------------
class Caller:
    """Random verbs on shared keys. A line before each call and a line after it go to a file that outlives a kill."""

    def __init__(self, memory: Any, path: str, seed: int, keys: int, stale: bool) -> None:
        self._memory = memory
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._random = random.Random(seed)
        self._label, self._count = f"{seed}", 0
        self._words = WORDS[:keys]
        self._ids: dict[str, str] = {}
        self._stale: dict[str, Any] | None = {} if stale else None  # a planted fault: reads are answered from the first one

    def run(self, calls: int) -> None:
        verbs = ["remember"] * 3 + ["update"] * 3 + ["forget"] + ["get"] * 3 + ["recall"] * 4
        for _ in range(calls):
            self._call(self._random.choice(verbs), self._random.choice(self._words))

    def _call(self, verb: str, word: str) -> None:
        self._count += 1
        content = f"The {word} stands in bay {self._label}-{self._count}."
        id = self._ids.get(word, "")
        if verb in ("update", "get") and not id:
            verb = "recall"
        line = {"number": self._count, "verb": verb, "word": word, "content": content, "id": id}
        self._note({**line, "begin": time.monotonic_ns()})
        try:
            found = self._stale_answer(verb, word) or getattr(self, f"_{verb}")(word, id, content)
        except NotFound:
            found = {"answer": 0 if verb == "forget" else "absent"}
        except KeepstoneError as error:
            self._note({"number": self._count, "lost": type(error).__name__})
            return
        self._note({"number": self._count, "end": time.monotonic_ns(), **found})
        if self._stale is not None and verb == "recall":
            self._stale.setdefault(word, found)
        if found.get("id"):
            self._ids[word] = found["id"]

    def _stale_answer(self, verb: str, word: str) -> dict[str, Any] | None:
        return self._stale.get(word) if self._stale is not None and verb == "recall" else None

    def _note(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def _remember(self, word: str, id: str, content: str) -> dict[str, Any]:
        receipt = self._memory.remember(content, key=f"where.{word}")
        return {"id": receipt.id, "answer": receipt.action}

    def _update(self, word: str, id: str, content: str) -> dict[str, Any]:
        self._memory.update(id, content)
        return {"answer": "updated"}

    def _forget(self, word: str, id: str, content: str) -> dict[str, Any]:
        return {"answer": self._memory.forget(key=f"where.{word}").forgotten}

    def _get(self, word: str, id: str, content: str) -> dict[str, Any]:
        record = self._memory.get(id)
        return {"answer": None if record is None else record.content}

    def _recall(self, word: str, id: str, content: str) -> dict[str, Any]:
        found = self._memory.recall(f"Where does the {word} stand?", limit=10)
        hits = [hit for hit in found if hit.content.startswith(f"The {word} ")]
        return {"id": hits[0].id, "answer": hits[0].content} if hits else {"id": "", "answer": None}


def call(target: str, path: str, seed: str, calls: str, keys: str, stale: str) -> None:
    """Be a process that calls."""
    memory: Any = Memory.open(target) if "http" not in target else Client(target, key=os.environ["HISTORY_KEY"])
    with memory:
        Caller(memory, path, int(seed), int(keys), stale == "stale").run(int(calls))


# -- the run ------------------------------------------------------------------------------------------------------
class History:
    """Processes that call, killed and started again, and what they wrote down."""

    def __init__(self, folder: Path, seed: int, keys: int) -> None:
        self._folder, self._random, self._keys = folder, random.Random(seed), keys
        self._started = 0
        self.kills = 0
        folder.mkdir(parents=True, exist_ok=True)

    def start(self, target: str, calls: int, stale: bool = False, **variables: str) -> subprocess.Popen[bytes]:
        self._started += 1
        path = self._folder / f"{self._started}.jsonl"
        options = (target, str(path), str(self._started), str(calls), str(self._keys), "stale" if stale else "")
        command = [sys.executable, "-m", "bench.history", "call", *options]
        return subprocess.Popen(command, env={**environment(), **variables})

    def run_files(self, processes: int, calls: int, kills: int, stale: bool = False) -> None:
        """Processes on one file; some are killed in the middle, and others take their place."""
        path = str(self._folder / "memory.db")
        Memory.open(path).close()
        running = [self.start(path, calls, stale and not number) for number in range(processes)]
        for _ in range(kills):
            self._wait_for(calls * processes // (kills + 2))
            victim = running.pop(self._random.randrange(len(running)))
            victim.kill()
            victim.wait()
            self.kills += 1
            running.append(self.start(path, calls // 2))
        self._end(running)

    def run_servers(self, servers: int, processes: int, calls: int, kills: int) -> None:
        """Clients of several servers on one PostgreSQL; servers are killed and started again at the same address."""
        with ExitStack() as stack:
            database = stack.enter_context(PostgresServer(self._folder / "postgres"))
            url = database.database("history")
            key = _make_key(url)
            serving = [_Server(url, self._folder / f"server{number}.log") for number in range(servers)]
            for server in serving:
                stack.callback(server.kill)
            for server in serving:
                server.wait()
            running = [
                self.start(serving[number % servers].address, calls, HISTORY_KEY=key) for number in range(processes)
            ]  # fmt: skip
            for number in range(kills):
                self._wait_for(calls * processes // (kills + 2))
                server = serving[number % servers]
                server.kill()
                self.kills += 1
                server.start()
                server.wait()
            self._end(running)

    def _wait_for(self, more: int) -> None:
        """Wait until so many further lines were written."""
        goal, deadline = self._lines() + more, time.monotonic() + PATIENCE
        while self._lines() < goal and time.monotonic() < deadline:
            time.sleep(0.02)

    def _lines(self) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self._folder.glob("*.jsonl"))

    def _end(self, running: list[subprocess.Popen[bytes]]) -> None:
        for process in running:
            if process.wait(PATIENCE):
                raise RuntimeError(f"a process ended with status {process.returncode}")

    def calls(self) -> dict[str, list[Call]]:
        """Every call by its key."""
        found: dict[str, list[Call]] = defaultdict(list)
        for path in sorted(self._folder.glob("*.jsonl")):
            begun: dict[int, dict[str, Any]] = {}
            for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                if "begin" in line:
                    begun[line["number"]] = line
                elif "end" in line:
                    found[begun[line["number"]]["word"]].append(_as_call(begun.pop(line["number"]), line))
            for line in begun.values():
                found[line["word"]].append(_as_call(line, {}))
        return found


def _as_call(begun: dict[str, Any], ended: dict[str, Any]) -> Call:
    id = ended.get("id", begun["id"] if begun["verb"] in ("update", "get") else "")
    content = begun["content"] if begun["verb"] in ("remember", "update") else ""
    return Call(begun["verb"], begun["begin"], ended.get("end"), id, content, ended.get("answer"))


class _Server:
    """`keepstone serve`, always at the same port."""

    def __init__(self, url: str, log: Path) -> None:
        self._port, self._url, self._log = _free_port(), url, log
        self.address = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "keepstone", "serve", "--db", self._url, "--port", str(self._port), "--workers", "1"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until it answers."""
        from urllib.request import urlopen

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urlopen(f"{self.address}/readyz", timeout=5):
                    return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server does not answer: {self._log.read_text()[-500:]}") from None
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _make_key(url: str) -> str:
    command = [sys.executable, "-m", "keepstone", "keys", "create", "--name", "history", "--db", url, "--json"]
    made = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["key"])


def judge(history: History) -> dict[str, Any]:
    """The counts of a history and what is wrong with it, by key."""
    calls = history.calls()
    problems = {word: wrong for word, each in sorted(calls.items()) if (wrong := violation(each)) is not None}
    every = [call for each in calls.values() for call in each]
    return {
        "calls": len(every), "verbs": dict(Counter(call.verb for call in every)), "keys": len(calls), "kills": history.kills,
        "without_answer": sum(not call.answered for call in every), "problems": problems,
    }  # fmt: skip


def main(argv: list[str]) -> int:
    """Print the JSON object; exit status 1 if a history is not linearizable."""
    if argv[:1] == ["call"]:
        call(*argv[1:])
        return 0
    parser = argparse.ArgumentParser(prog="bench history", description=__doc__)
    parser.add_argument("--processes", type=int, default=8, help="processes that call (default 8)")
    parser.add_argument("--servers", type=int, default=3, help="servers on one PostgreSQL (default 3)")
    parser.add_argument("--calls", type=int, default=400, help="calls of each process (default 400)")
    parser.add_argument("--keys", type=int, default=5, choices=range(1, len(WORDS) + 1), help="keys they share (default 5)")
    parser.add_argument("--kills", type=int, default=6, help="processes or servers that are killed (default 6)")
    parser.add_argument("--stores", default="sqlite,postgres", help="sqlite, postgres or both (default both)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stale", action="store_true", help="plant a fault: a process of the file answers from old reads")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    given = parser.parse_args(argv)
    runs: dict[str, Callable[[History], None]] = {
        "sqlite": lambda history: history.run_files(given.processes, given.calls, given.kills, given.stale),
        "postgres": lambda history: history.run_servers(given.servers, given.processes, given.calls, given.kills),
    }
    found: dict[str, Any] = result_head("history", argv)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        for store in given.stores.split(","):
            progress(f"{store} …")
            history = History(Path(folder) / store, given.seed, given.keys)
            begun = time.monotonic()
            runs[store](history)
            found[store] = {**judge(history), "seconds": round(time.monotonic() - begun, 1)}
            if not given.json:
                wrong = found[store]["problems"] or "linearizable"
                print(f"{store:<10} {found[store]['calls']} calls, {found[store]['without_answer']} without an answer: {wrong}")
    print(json.dumps(found))
    return 1 if any(found[store]["problems"] for store in given.stores.split(",")) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
