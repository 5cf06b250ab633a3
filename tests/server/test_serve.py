"""`keepstone serve` as a process of its own: what it says, what it does when its port is taken, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.cli import main
from keepstone.cli.serve import _key as first_key
from keepstone.errors import ConfigurationError
from keepstone.server.keys import Keys
from tests.server.running import Running

PATIENCE = 60


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KEEPSTONE_")}
    return {**kept, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command, in a folder of its own; killed if the test leaves it."""
    command = [sys.executable, "-m", "keepstone", "serve", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def told(started: subprocess.Popen[str]) -> dict[str, Any]:
    """What `--json` says when the server is ready."""
    assert started.stdout is not None
    line = started.stdout.readline()
    assert line, started.stderr.read() if started.stderr else ""
    found: dict[str, Any] = json.loads(line)
    return found


def answering(address: str, path: str = "/healthz") -> httpx2.Response:
    """The first answer of a server that is starting."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return httpx2.get(address + path, timeout=PATIENCE)
        except httpx2.TransportError:
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.02)


def ended(started: subprocess.Popen[str]) -> int:
    started.send_signal(signal.SIGTERM)
    return started.wait(PATIENCE)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_new_store_is_served_with_a_key_that_was_made_for_it(tmp_path: Path, workers: str) -> None:
    with process(tmp_path, "--port", "0", "--workers", workers, "--json") as started:
        said = told(started)
        answering(said["address"])
        key = {"authorization": f"Bearer {said['key']}"}
        with httpx2.Client(base_url=said["address"], headers=key, timeout=60) as http:
            assert http.post("/v1/memories", json={"content": "Dana prefers dark mode."}).status_code == 201
            for _ in range(4):  # whichever process answers
                hits = http.post("/v1/recall", json={"query": "Which theme does Dana like?"}).json()["hits"]
                assert [hit["content"] for hit in hits] == ["Dana prefers dark mode."]
        assert said["mcp"]["mcpServers"]["keepstone"]["url"] == said["address"] + "/mcp"
        assert ended(started) == 0
    with Memory.open(tmp_path / "keepstone.db") as memory:  # the same scope that the library and the commands use
        assert memory.recall("theme")[0].content == "Dana prefers dark mode."


def test_the_greeting_has_all_that_a_new_user_needs(tmp_path: Path) -> None:
    with process(tmp_path, "--port", "0", "--workers", "1") as started:
        assert started.stdout is not None
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(started.stdout.readline())
            assert lines[-1], started.stderr.read() if started.stderr else ""
        text = "".join(lines)
        address, key = re.findall(r"http://127\.0\.0\.1:\d+", text)[0], re.findall(r"ks_[0-9a-f]{8}_[\w-]{43}", text)[0]
        assert f"{address}/#key={key}" in text
        block = json.loads(text[text.index("{\n") : text.index("}\nClaude") + 1])
        server = block["mcpServers"]["keepstone"]
        assert (server["url"], server["headers"]["Authorization"]) == (f"{address}/mcp", f"Bearer {key}")
        assert answering(address).json()["status"] == "ok"
        assert ended(started) == 0


def test_the_first_key_is_shown_again_where_it_was_kept(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with process(tmp_path, "--port", "0", "--workers", "1", "--json", "--first-key", "mine.key") as started:
            keys.append(told(started)["key"])
            assert ended(started) == 0
    assert keys[0] == keys[1] == (tmp_path / "mine.key").read_text().strip()
    assert stat.S_IMODE((tmp_path / "mine.key").stat().st_mode) == 0o600
    with process(tmp_path, "--port", "0", "--workers", "1", "--json") as started:
        assert told(started)["key"] is None, "there is one already, and it is not shown again"
        assert ended(started) == 0


def test_a_port_that_is_taken_is_said_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with process(tmp_path, "--port", str(port)) as started:
            _, said = started.communicate(timeout=PATIENCE)
        assert started.returncode == 5
        assert f"127.0.0.1:{port}" in said
        assert f"--port {port + 1}" in said
    assert list(tmp_path.iterdir()) == [], "nothing was made for nothing"


def test_two_servers_without_a_port_find_one_each(tmp_path: Path) -> None:
    with process(tmp_path, "--workers", "1", "--json", "--db", "one.db") as one:
        first = told(one)["address"]
        with process(tmp_path, "--workers", "1", "--json", "--db", "two.db") as two:
            second = told(two)["address"]
            assert first != second
            assert answering(second).status_code == 200
            assert ended(two) == 0
        assert answering(first).status_code == 200
        assert ended(one) == 0


def test_what_is_under_way_is_answered_before_it_ends(tmp_path: Path) -> None:
    with process(tmp_path, "--port", "0", "--workers", "1", "--json") as started:
        said = told(started)
        answering(said["address"])
        port = int(said["address"].rpartition(":")[2])
        body = json.dumps({"content": "Dana lives in Lisbon."}).encode()
        head = f"POST /v1/memories HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {said['key']}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            connection.sendall(head.encode() + body[:10])
            started.send_signal(signal.SIGTERM)
            until = time.monotonic() + PATIENCE
            while True:  # until nothing new is taken any more
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                except OSError:
                    break
                assert time.monotonic() < until
            connection.sendall(body[10:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        assert started.wait(PATIENCE) == 0
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert memory.recall("Where does Dana live?")[0].content == "Dana lives in Lisbon."


def test_a_worker_that_is_killed_is_replaced_and_none_outlives_the_first_process(tmp_path: Path) -> None:
    with process(tmp_path, "--port", "0", "--workers", "2", "--json") as started:
        said = told(started)
        answering(said["address"])
        parent = psutil.Process(started.pid)
        until = time.monotonic() + PATIENCE
        while len(workers := [each for each in parent.children() if "resource_tracker" not in " ".join(each.cmdline())]) < 2:
            assert time.monotonic() < until
        workers[0].kill()
        for _ in range(20):
            assert answering(said["address"], "/readyz").status_code == 200
        children = parent.children(recursive=True)
        started.kill()
        _, alive = psutil.wait_procs(children, timeout=PATIENCE)
        assert alive == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["--host", "no.such.host.invalid"], "--host"), (["--db", "missing/folder.db"], "missing"), (["--port", "70000"], "65535")],
)
def test_what_cannot_be_served_is_refused_in_words(tmp_path: Path, arguments: list[str], word: str) -> None:
    with process(tmp_path, *arguments) as started:
        _, said = started.communicate(timeout=PATIENCE)
    assert started.returncode in (2, 5, 6)
    assert word in said
    assert "Traceback" not in said


def test_keys_are_made_listed_and_taken_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(tmp_path / "memory.db")
    assert main(["keys", "create", "--db", store, "--name", "alice", "--tenant", "acme", "--expires", "30d"]) == 0
    key = capsys.readouterr().out
    assert re.fullmatch(r"ks_[0-9a-f]{8}_[\w-]{43}\n", key), "the key stands alone"
    assert main(["keys", "create", "--db", store, "--name", "bot", "--service", "--scopes", "read", "--agent", "helper"]) == 0
    capsys.readouterr()
    with Memory.open(store) as memory:
        alice = Keys(backend_of(memory)).check(key.strip())
    assert (alice.tenant, alice.user, alice.agent, alice.service) == ("acme", "alice", None, False)
    assert alice.rights == {"read", "write", "forget"}
    assert main(["keys", "list", "--db", store, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["keys"]
    assert [(each["name"], each["user"], each["agent"], each["rights"]) for each in listed] == [
        ("alice", "alice", None, ["forget", "read", "write"]),
        ("bot", None, "helper", ["read"]),
    ]
    assert main(["keys", "revoke", "--db", store, alice.id]) == 0
    assert main(["keys", "revoke", "--db", store, alice.id]) == 3
    capsys.readouterr()
    assert main(["keys", "create", "--db", store, "--name", "x", "--scopes", "everything"]) == 2
    assert "the scope 'everything' does not exist" in capsys.readouterr().err


def test_keys_of_a_server_are_made_by_its_admins(
    server: Running, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KEEPSTONE_URL", server.url)
    monkeypatch.setenv("KEEPSTONE_KEY", server.key("boss", rights=("read", "write", "admin"), tenant="acme"))
    assert main(["keys", "create", "--name", "dana", "--scopes", "read", "--user", "d", "--expires", "1d"]) == 0
    key = capsys.readouterr().out.strip()
    made = server.service.keys.check(key)
    assert (made.tenant, made.user, made.rights) == ("acme", "d", {"read"})
    assert main(["keys", "list", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["keys"]] == ["boss", "dana"]
    assert main(["keys", "create", "--name", "x", "--scopes", "forget"]) == 9, "more than the key has that makes it"
    assert main(["keys", "create", "--name", "x", "--tenant", "other"]) == 9
    assert main(["keys", "revoke", made.id]) == 0
    monkeypatch.setenv("KEEPSTONE_KEY", key)
    assert main(["keys", "list"]) == 9


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the workers wait at one socket")
def test_connections_that_come_at_once_are_divided_among_the_workers(tmp_path: Path) -> None:
    with process(tmp_path, "--port", "0", "--workers", "2", "--json") as started, ExitStack() as opened:
        port = int(told(started)["address"].rpartition(":")[2])
        for _ in range(40):  # one worker alone would have them all once in 2**39 runs
            connection = opened.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        held = [
            sum(each.status == psutil.CONN_ESTABLISHED for each in worker.net_connections("tcp"))
            for worker in psutil.Process(started.pid).children()
        ]
        assert sum(held) == 40
        assert sum(count > 0 for count in held) == 2
        assert ended(started) == 0


def test_the_first_key_does_not_overwrite_other_files(server: Running, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Dana's own notes.\n")
    with pytest.raises(ConfigurationError, match="does not contain a key"):
        first_key(server.service, str(notes))
    assert notes.read_text() == "Dana's own notes.\n"
    assert server.service.keys.list() == []


def test_the_first_key_file_is_private(server: Running, tmp_path: Path) -> None:
    old = tmp_path / "key"
    old.write_text("ks_00000000_of-another-store\n")
    old.chmod(0o644)
    key = first_key(server.service, str(old))
    assert (old.read_text(), stat.S_IMODE(old.stat().st_mode)) == (f"{key}\n", 0o600)


def test_a_first_key_that_cannot_be_saved_is_not_created(server: Running, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        first_key(server.service, str(tmp_path / "nowhere" / "key"))
    assert server.service.keys.list() == []
    assert first_key(server.service, None) is not None, "the next start makes and shows one"
