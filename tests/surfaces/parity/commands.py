"""The adapter for the command line: in this process where that is enough, on a file or, with KEEPSTONE_URL, on a server."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from keepstone.cli import main
from keepstone.cli.exit_codes import REFUSED
from tests.cli.support import surroundings
from tests.surfaces.parity.served import Served
from tests.surfaces.parity.surfaces import LIMIT, SESSION, Found, Refusal, Surface, Written, killed

# Processes that begin at the same moment, with everything loaded that they need; what each answers is in a file of its own.
_TOGETHER = """
import os, sys
import httpx2
from keepstone.cli import main
main(["remember", "--db", ":memory:", "--json", "--", "so that it is loaded once"])
gate, hand = os.pipe()
children = []
for number in range(int(sys.argv[1])):
    children.append(os.fork())
    if children[-1] == 0:
        os.close(hand)
        os.read(gate, 1)
        os.dup2(os.open(str(number), os.O_WRONLY | os.O_CREAT), 1)
        os._exit(main(sys.argv[2:]))
os.close(hand)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children))
"""


class Commands(Surface):
    """`keepstone …`, with `--json`."""

    signs = {
        "unknown": "exit 3, NotFound",
        "bad": "exit 2, ValidationError",
        "large": "exit 2, TooLarge",
        "refused": "exit 10",
    }

    def __init__(self, folder: Path, *scope: str, served: Served | None = None, **environment: str) -> None:
        self.folder, self.scope, self.served, self.environment = folder, scope, served, environment
        self.store = folder / "memory.db" if served is None else served.store

    def ask(self, command: str, *arguments: str, piped: str = "") -> Any:
        """What a command answers; its arguments stand after `--`, so that no text is taken for an option."""
        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
        streams["stdin"] = io.TextIOWrapper(io.BytesIO(piped.encode()), encoding="utf-8")
        with mock.patch.multiple(sys, **streams), mock.patch.dict(os.environ, surroundings(**self.environment), clear=True):
            code = main([*command.split(), *self.scope, "--json", *arguments])
        said = {name: _text(stream) for name, stream in streams.items()}
        if code == REFUSED:
            receipt = json.loads(said["stdout"])
            raise Refusal(f"exit {code}", "; ".join(receipt["reasons"]))
        if code == 0:
            return [json.loads(line) for line in said["stdout"].splitlines()][-1]
        error = json.loads(said["stderr"])["error"]
        raise Refusal(f"exit {code}, {error['type']}", error["message"])

    def argument(self, name: str) -> str:
        return f"--{name.replace('_', '-')}"

    def remember(self, content: str, tag: str = "general", **more: str) -> Written:
        options = [part for name, value in more.items() for part in (f"--{name}", value)]
        return _written(self.ask("remember", "--tag", tag, *options, "-", piped=content))

    def recall(self, query: str, tag: str | None = None, limit: int = LIMIT) -> list[Found]:
        narrowed = () if tag is None else ("--tag", tag)
        return _found(self.ask("recall", "--limit", str(limit), *narrowed, "--", query)["hits"])

    def update(self, id: str, content: str) -> Written:
        return _written(self.ask("update", "--", id, "-", piped=content))

    def forget(self, id: str) -> None:
        assert self.ask("forget", "--", id)["forgotten"] == 1

    def context(self, query: str, **narrowed: Any) -> str:
        kinds = [part for kind in narrowed.pop("kinds", ()) for part in ("--kind", kind)]
        options = [part for name, value in narrowed.items() for part in (self.argument(name), str(value))]
        return str(self.ask("context", *kinds, *options, "--", query)["context"])

    def search_conversations(self, words: str) -> list[str]:
        return [hit["content"] for hit in self.ask("recall", "--kind", "message", "--session", SESSION, "--", words)["hits"]]

    def say(self, text: str) -> None:
        self.ask("chat", "--session", SESSION, piped=text + "\n")

    def listed(self) -> list[Found]:
        return _found(self.ask("list")["records"])

    def review(self) -> list[str]:
        return [item["id"] for item in self.ask("review list")["items"]]

    def history(self, id: str) -> Sequence[str]:
        return [each["content"] for each in self.ask("history", "--", id)["versions"]]

    def why(self, query: str, id: str) -> tuple[bool, Sequence[str]]:
        found = self.ask("why", "--", query, id)
        return found["recalled"], found["reasons"]

    def set(self, key: str, value: Any) -> Written:
        return _written(self.ask("set", "--parse", "--", key, "-", piped=json.dumps(value)))

    def value(self, key: str) -> Any:
        return self.ask("value", "--", key)["value"]

    def audit(self) -> str:
        return json.dumps(self.ask("audit")["rows"])

    def export(self, path: Path) -> int:
        return int(self.ask("export", "--", str(path))["records"])

    def another(self) -> Surface:
        if self.served is None:
            return Commands(self.folder, *self.scope, "--user", "another")
        return over_http(self.folder, self.served)

    def remember_then_kill(self, content: str) -> Written:
        """On a file the command itself is killed once it has answered; over HTTP it is the server that is."""
        if self.served is not None:
            written = self.remember(content)
            self.served.kill()
            self.served.start()
            return written
        command = [sys.executable, "-m", "keepstone", "remember", "-", *self.scope, "--json"]
        return _written(json.loads(killed(command, content)))

    def at_once(self, content: str, times: int) -> list[Written]:
        command = [sys.executable, "-c", _TOGETHER, str(times), "remember", *self.scope, "--json", "--", content]
        answers = self.folder / "answers"
        answers.mkdir()
        quiet, environment = subprocess.DEVNULL, surroundings(**self.environment)
        subprocess.run(command, cwd=answers, env=environment, stdout=quiet, timeout=120, check=True)
        return [_written(json.loads(each.read_text())) for each in answers.iterdir()]


def on_a_file(folder: Path) -> Commands:
    return Commands(folder, "--db", str(folder / "memory.db"))


def over_http(folder: Path, served: Served) -> Commands:
    return Commands(folder, served=served, KEEPSTONE_URL=served.url, KEEPSTONE_KEY=served.key())


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    held = stream.buffer
    assert isinstance(held, io.BytesIO)
    return held.getvalue().decode()


def _written(receipt: dict[str, Any]) -> Written:
    return Written(receipt["action"], receipt["id"], tuple(receipt["reasons"]))


def _found(documents: Sequence[dict[str, Any]]) -> list[Found]:
    return [Found(each["id"], each["content"]) for each in documents]
