"""Nothing that is planted comes out where it must not: logs, figures, spans, reports, problems, processes' own descriptions.

What may be seen where: content and names are the caller's, so answers to their owner may hold them; everything that is written
down for the server's operator may not. Secrets (passwords, keys, tokens, cards) stand in neither.
"""

from __future__ import annotations

import functools
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from keepstone import Client, Memory
from keepstone.cli.invocation import Invocation
from keepstone.errors import KeepstoneError
from keepstone.server import logs
from keepstone.stores.postgres.target import Target
from tests.cli.support import process, surroundings
from tests.embedders.embeddings_endpoint import Embeddings, status
from tests.faults.support import until
from tests.security.planted import (
    CARD,
    CONTENT,
    EVERYTHING,
    GITHUB_TOKEN,
    NAME,
    NOTE,
    PASSWORD,
    PROVIDER_KEY,
    QUERY,
    SAID,
    SECRETS,
    leaks,
)
from tests.security.touring import Tour, told
from tests.server.running import running

PATIENCE = 60
ALL = ("read", "write", "forget", "admin", "operator")


# -- the server as a process ------------------------------------------------------------------------------------------
def _serving(folder: Path, *more: str, **environment: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """`keepstone serve` with its output in files, and what it says when it is ready."""
    command = [sys.executable, "-X", "faulthandler", "-m", "keepstone", "serve", "--port", "0", "--json", *more]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        started = subprocess.Popen(command, cwd=folder, env=surroundings(**environment), stdout=out, stderr=err)
    until = time.monotonic() + PATIENCE
    while not (folder / "out").read_text().endswith("\n"):
        assert started.poll() is None, (folder / "err").read_text()
        assert time.monotonic() < until, "the server does not begin"
        time.sleep(0.02)
    return started, json.loads((folder / "out").read_text())


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_writes_down_nothing_that_is_planted(tmp_path: Path, workers: str) -> None:
    telemetry = {"KEEPSTONE_TELEMETRY": "true", "OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "200"}
    started, said = _serving(tmp_path, "--workers", workers, "--first-key", "first.key", **telemetry)
    try:
        tour = Tour(said["address"], said["key"])
        tour.run()
        shown = "\n".join(_described(each.pid) for each in [psutil.Process(started.pid), *psutil.Process(started.pid).children()])
        until(lambda: "search_memory" in (tmp_path / "out").read_text(), "the spans, which come a moment later")
        started.send_signal(signal.SIGABRT if workers == "1" else signal.SIGTERM)  # the one dies with a traceback of all threads
        started.wait(PATIENCE)
    finally:
        started.kill()
    out, err = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    greeting, _, rest = out.partition("\n")
    assert len(leaks(greeting)) >= 1, "the key is shown once, where it was asked for"
    assert "/v1/recall" in err, "there are lines to look through"
    assert "search_memory" in rest, "and spans"
    assert leaks(rest + err) == []
    assert leaks(shown, [*EVERYTHING, said["key"]]) == []
    figures = "".join(each.text for each in tour.answers if each.url.path in ("/healthz", "/readyz", "/metrics"))
    assert "keepstone_" in figures
    assert leaks(figures) == []


def _described(pid: int) -> str:
    """What other users of the machine, and crash reports, see of a process."""
    found = psutil.Process(pid)
    return json.dumps([found.name(), found.cmdline(), found.environ(), [each.path for each in found.open_files()]])


# -- what is answered when something is wrong -------------------------------------------------------------------------
@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Everything that anybody logs, at the most talkative level, with what was given to be logged."""
    stream, root = io.StringIO(), logging.getLogger()
    names = ("", "keepstone", *logs._QUIET)
    levels = {name: logging.getLogger(name).level for name in names}
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    for name in ("keepstone", "uvicorn"):
        logging.getLogger(name).setLevel("DEBUG")
    raw = logging.StreamHandler(stream)
    raw.setFormatter(_Raw())
    logging.getLogger("keepstone").addHandler(raw)
    yield stream
    logging.getLogger("keepstone").removeHandler(raw)
    for each in [held for held in root.handlers if isinstance(held.formatter, logs.LineFormatter)]:
        root.removeHandler(each)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


class _Raw(logging.Formatter):
    """A record with all that it was made of: what another handler than ours could write."""

    def format(self, record: logging.LogRecord) -> str:
        return f"raw {record.name} {record.msg!r} {record.args!r} {record.getMessage()}"


def test_problems_hold_no_secret_and_the_log_nothing_at_all(tmp_path: Path, written: io.StringIO) -> None:
    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as server:
        key = server.key(NAME, service=True, rights=ALL)
        tour = Tour(server.url, key)
        tour.run()
    assert len(tour.problems) > 25, "most of the tour goes wrong"
    assert {each.status_code for each in tour.problems} >= {400, 401, 403, 404, 405, 413, 415, 422}
    assert not [each.status_code for each in tour.problems if each.status_code >= 500]
    assert leaks(told(tour.problems), [*SECRETS, key]) == []
    assert leaks(told(tour.answers), [PASSWORD, PROVIDER_KEY, GITHUB_TOKEN, CARD, key]) == [], (
        "they are taken out before they are stored"
    )
    assert '"POST /v1/recall 200"' in written.getvalue()
    assert leaks(written.getvalue()) == []


def test_a_failure_that_nobody_foresaw_is_told_without_its_values(
    tmp_path: Path, written: io.StringIO, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    @functools.wraps(Memory.recall)  # the server keeps the signature of a verb
    def broken(self: Memory, query: str, **given: Any) -> Any:
        raise RuntimeError(f"no answer to {query}: postgresql://app:{PASSWORD}@db/{NAME}")

    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as server:
        monkeypatch.setattr(Memory, "recall", broken)
        http = server.http(server.key(NAME, rights=ALL))
        answer = http.post("/v1/recall", json={"query": f"{QUERY} {CONTENT}"})
        http.close()
    assert (answer.status_code, leaks(told([answer]))) == (500, [])
    assert "in broken" in written.getvalue()
    assert leaks(written.getvalue()) == []
    assert leaks("".join(capfd.readouterr())) == []


# -- the library ------------------------------------------------------------------------------------------------------
def test_the_library_logs_nothing_that_is_planted(tmp_path: Path, written: io.StringIO) -> None:
    errors: list[BaseException] = []

    def attempted(verb: Any, *given: Any, **named: Any) -> Any:
        try:
            return verb(*given, **named)
        except KeepstoneError as error:
            errors.append(error)
            return None

    (tmp_path / "bad.jsonl").write_text(f'{{"content": "{CONTENT}"}}\nnot JSON {PROVIDER_KEY}\n')
    with Memory.open(tmp_path / "memory.db", user=NAME) as memory:
        memory.remember(
            f"{CONTENT}: the password={PASSWORD}, card {CARD}", key=NAME, metadata={NOTE: GITHUB_TOKEN}, source=f"tool:{NAME}"
        )
        memory.ingest([{"role": "user", "content": f"{SAID} and {PROVIDER_KEY}"}], session=NAME)
        memory.recall(QUERY)
        memory.context(QUERY)
        for text in (f"sk {PROVIDER_KEY}", f"password={PASSWORD} " * 9000, f"card {CARD}\0"):
            attempted(memory.remember, CONTENT, tag=text)
            attempted(memory.remember, CONTENT, occurred_at=text)
            attempted(memory.list, cursor=text)
            attempted(memory.list, filter={text: {"nope": text}})
            attempted(memory.update, text[:200], CONTENT)
            attempted(memory.upkeep.run, [text])
            attempted(memory.import_, text)
        attempted(memory.import_, tmp_path / "bad.jsonl")
        attempted(Memory.open, tmp_path / "other.db", embedder=f"none:{PROVIDER_KEY}")
        attempted(Memory.open, tmp_path / "other.db", settings={"sensitive": {PROVIDER_KEY: PASSWORD}})
        memory.forget(source=f"tool:{NAME}")
        rows = "\n".join(map(repr, memory.audit(limit=1000)))
        seen = " ".join(
            map(repr, (memory, memory._engine, memory._engine.settings, memory.upkeep.doctor(), memory.audit.verify()))
        )
    assert len(errors) > 12
    assert leaks(" ".join(f"{error} {error!r}" for error in errors), SECRETS) == []
    assert leaks(rows, [CONTENT, SAID, QUERY, NOTE, *SECRETS]) == [], "the trail holds names and no content"
    assert leaks(seen, [CONTENT, SAID, QUERY, NOTE, *SECRETS]) == []
    assert leaks(written.getvalue()) == []


def test_a_provider_that_repeats_the_key_is_not_repeated(
    tmp_path: Path, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", PROVIDER_KEY)
    refusing = status(401, message=f"Incorrect API key provided: {PROVIDER_KEY}, for the text {CONTENT}")
    with Embeddings([refusing] * 50) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        with Memory.open(tmp_path / "memory.db", embedder="openai:embed-test", settings={"worker": False}) as memory:
            receipt = memory.remember(CONTENT)
            recall = memory.recall(QUERY)
            seen = [
                repr(memory._engine),
                repr(memory.upkeep.doctor()),
                repr(receipt),
                repr(recall.notes),
                *map(repr, memory.audit()),
            ]
    assert endpoint.requests, "it was asked"
    assert leaks(" ".join(seen), [*SECRETS]) == []
    assert leaks(written.getvalue()) == []


# -- addresses with passwords in them, on the command line and in the settings ---------------------------------------------
ADDRESSES = {
    "password": f"postgresql://app:{PASSWORD}@127.0.0.1:9/memories?connect_timeout=1",
    "query": f"postgresql://app@127.0.0.1:9/memories?password={PASSWORD}&connect_timeout=1",
    "odd": f"postgresql://app:{PASSWORD}#@127.0.0.1:9/memories",
    "scheme": f"mysql://app:{PASSWORD}@127.0.0.1:9/memories",
}


@pytest.mark.parametrize(
    ("name", "command"),
    [*((name, ("doctor",)) for name in ADDRESSES), ("password", ("serve", "--port", "0")), ("query", ("keys", "list", "--json"))],
    ids=lambda each: each if isinstance(each, str) else each[0],
)
def test_a_store_that_cannot_be_reached_is_named_without_its_password(
    tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    address = ADDRESSES[name]
    given = {"KEEPSTONE_DB": address, "KEEPSTONE_BUSY_TIMEOUT": "0.2"}
    ran = process(*command, cwd=tmp_path, **given)
    assert ran.returncode != 0
    assert ran.stderr.strip()
    assert leaks(ran.stdout + ran.stderr) == []


def test_what_is_shown_of_a_store_has_no_password() -> None:
    shown = [Invocation.of({"db": address}, {}).shown for address in ADDRESSES.values()]
    assert all("127.0.0.1:9" in each for each in shown)
    assert leaks(" ".join(shown) + repr(Target.of(ADDRESSES["password"]))) == []


def test_commands_show_no_password_of_a_server_buffer_or_index(tmp_path: Path) -> None:
    key = "ks_" + "0123abcd_" + "k" * 43
    tries: list[tuple[tuple[str, ...], dict[str, str]]] = [
        (("recall", QUERY), {"KEEPSTONE_URL": f"http://user:{PASSWORD}@127.0.0.1:9", "KEEPSTONE_KEY": key}),
        (("recall", QUERY), {"KEEPSTONE_URL": "http://127.0.0.1:9", "KEEPSTONE_KEY": f"Bearer {key}\n"}),
        (("keys", "list"), {"KEEPSTONE_URL": "http://127.0.0.1:9", "KEEPSTONE_KEY": key, "KEEPSTONE_DEBUG": "1"}),
        (("remember", CONTENT), {"KEEPSTONE_BUFFER": f"redis://:{PASSWORD}@127.0.0.1:9/0"}),
        (("remember", CONTENT), {"KEEPSTONE_BUFFER": f"redis://:{PASSWORD}@[bad"}),
        (("doctor",), {"KEEPSTONE_INDEX": f"qdrant:http://user:{PASSWORD}@127.0.0.1:9"}),
        (("doctor", "--embedder", f"openai:{PROVIDER_KEY}"), {}),
        (("doctor", f"--token={GITHUB_TOKEN}"), {}),
        (("remember", CONTENT, "--tag", f"{PROVIDER_KEY}"), {}),
    ]
    for command, environment in tries:
        ran = process(*command, cwd=tmp_path, **environment)
        assert leaks(ran.stdout + ran.stderr, [*SECRETS, key]) == [], (command, list(environment))


def test_a_client_tells_neither_its_key_nor_its_password(tmp_path: Path) -> None:
    key = "ks_" + "0123abcd_" + "k" * 43
    seen: list[str] = []
    for url in ("http://127.0.0.1:9", f"http://user:{PASSWORD}@127.0.0.1:9"):
        try:
            with Client(url, key, timeout=0.2) as client:
                seen += [repr(client), repr(client._wire)]
                client.recall(QUERY)
        except (KeepstoneError, httpx2.HTTPError):
            seen.append(traceback.format_exc())
    assert len(seen) >= 2
    assert leaks("\n".join(seen), [PASSWORD, key, QUERY]) == []


def test_the_command_line_tells_no_content_where_it_fails(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text(CONTENT * 20)
    for command in (("recall", QUERY), ("doctor",), ("export", "x.jsonl")):
        ran = process(*command, "--db", "broken.db", cwd=tmp_path)
        assert ran.returncode != 0
        assert leaks(ran.stdout + ran.stderr) == []
    assert (tmp_path / "broken.db").read_text() == CONTENT * 20
    assert sorted(os.listdir(tmp_path)) == ["broken.db"]
