"""The command line as a process: help, encodings, terminals and their questions, colours, closed pipes, Ctrl-C, progress."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from functools import wraps
from importlib import import_module
from pathlib import Path

import pytest

from keepstone import Memory, __version__
from keepstone.cli.app import QUICK
from keepstone.cli.exit_codes import MEANINGS
from tests.cli.support import Cli, accept_interrupts, process, surroundings


def test_help_version_and_nothing_at_all(tmp_path: Path) -> None:
    help = process("--help", cwd=tmp_path)
    assert help.returncode == 0
    assert all(meaning in help.stdout for meaning in MEANINGS.values())
    assert "─" not in help.stdout
    assert process("--version", cwd=tmp_path).stdout == f"keepstone {__version__}\n"
    no_hits = process(cwd=tmp_path)
    assert (no_hits.returncode, no_hits.stdout) == (2, "")
    assert no_hits.stderr.startswith("Usage: keepstone")


@pytest.mark.parametrize(("command", "module"), QUICK.items())
def test_quick_commands_are_those_of_their_module(command: str, module: str) -> None:
    names = {found.name for found in import_module(f"keepstone.cli.{module}").app.registered_commands}
    assert command in names
    program = f"import sys; from keepstone.cli import main; main(['{command}', '--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "'keepstone.cli.serve'" not in done.stdout


def test_two_processes_share_the_file(tmp_path: Path) -> None:
    done = process("remember", cwd=tmp_path, piped="Zoë mag 日本 🎉".encode(), PYTHONIOENCODING="utf-8")
    assert (done.returncode, done.stderr) == (0, "")
    found = process("recall", "Zoë 日本", cwd=tmp_path, PYTHONIOENCODING="utf-8")
    assert "Zoë mag 日本 🎉" in found.stdout
    assert "\x1b" not in found.stdout
    ascii_only = process("list", "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(ascii_only.stdout)["records"][0]["content"] == "Zoë mag 日本 🎉"
    assert process("list", cwd=tmp_path, PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.parametrize(
    ("environment", "styled"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_only_where_the_terminal_can(tmp_path: Path, environment: dict[str, str], styled: bool) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "keepstone", "list"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=theirs, env=surroundings(**environment),
    )  # fmt: skip
    os.close(theirs)
    assert done.wait(60) == 0
    seen = os.read(ours, 10_000)
    os.close(ours)
    assert b"One thing" in seen
    assert (b"\x1b[" in seen) is styled


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_closed_pipe_is_silent(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.remember_many([f"{number} {'long text ' * 300}" for number in range(100)])
    reader, writer = os.pipe()
    running = subprocess.Popen(
        [sys.executable, "-m", "keepstone", "list", "--limit", "100", *options],
        cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, env=surroundings(),
    )  # fmt: skip
    os.close(writer)
    os.read(reader, 10)
    os.close(reader)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (0, b"")


def test_closed_streams_end_no_command(tmp_path: Path) -> None:
    command = f"{sys.executable} -m keepstone remember 'One thing' >&- 2>&-; echo $?"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, timeout=60, env=surroundings(), check=True)
    assert done.stdout == b"0\n"


def test_ctrl_c_is_130_without_a_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    @wraps(Memory.list)  # the command's options are made from its signature
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Memory, "list", interrupted)
    result = cli("list")
    assert (result.code, result.out, result.err.strip()) == (130, "", "")


@pytest.mark.parametrize(("answer", "code", "left"), [(b"n\n", 130, 1), (b"\n", 130, 1), (b"y\n", 0, 0)])
def test_forgetting_much_asks_on_a_terminal(tmp_path: Path, answer: bytes, code: int, left: int) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    done = subprocess.run(
        [sys.executable, "-m", "keepstone", "forget", "--everything"],
        cwd=tmp_path, stdin=theirs, capture_output=True, timeout=60, check=False, env=surroundings(),
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert done.returncode == code
    assert b"Forget everything of tenant local" in done.stderr
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert len(memory.list()) == left


def test_ctrl_c_at_the_question_forgets_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.remember("One thing")
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "keepstone", "forget", "--everything"],
        cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=surroundings(),
        preexec_fn=accept_interrupts,
    )  # fmt: skip
    assert running.stderr is not None
    asked = running.stderr.read(6)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert (asked, running.returncode, out) == (b"Forget", 130, b"")
    assert b"Traceback" not in err
    with Memory.open(tmp_path / "keepstone.db") as memory:
        assert len(memory.list()) == 1


def test_a_bar_is_drawn_only_on_a_terminal_and_only_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from keepstone.cli import output as progress

    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    quiet, drawn = progress.Bar("working", wanted=False), progress.Bar("working", wanted=True)
    for bar in (quiet, drawn):
        bar(1, 2)
        bar(2, 2)
        bar.end()
    assert quiet._drawn is None
    assert drawn._drawn is not None
    monkeypatch.setattr(progress, "DELAY_SECONDS", 60.0)
    patient = progress.Bar("working", wanted=True)
    patient(1, 2)
    assert patient._drawn is None
