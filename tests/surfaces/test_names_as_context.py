"""Keys and tags are words beside their value: what is kept under "password" is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Memory
from tests.cli.support import process


@pytest.mark.parametrize("key", ["password", "db.password", "wifi_password", "api_key"])
def test_a_secret_under_a_key_is_not_kept(memory: Memory, key: str) -> None:
    assert memory.set(key, "hunter2x9Q7").action == "refused"
    assert memory.value(key) is None


def test_nine_digits_under_ssn(memory: Memory) -> None:
    assert memory.set("ssn", "078051120").action == "refused"
    assert memory.set("parcel", "078051120").action == "added"
    assert memory.set("person", {"ssn": 78051120, "age": 41}).action == "redacted"
    assert memory.value("person") == {"ssn": "[redacted:ssn]", "age": 41}


def test_health_finds_and_mends_what_was_let_in(path: Path) -> None:
    with Memory.open(path, settings={"sensitive": {"secret": "allow", "card": "allow"}}) as memory:
        memory.remember("Dana has an account.", metadata={"password": "hunter2x9Q7"})
        memory.remember("Dana pays.", key="card 4111 1111 1111 1111", metadata={"card": 5555555555554444})
    with Memory.open(path) as memory:
        assert memory.upkeep.health().counts["secrets"] == 2
        assert memory.upkeep.fix(checks=["secrets"]).redacted == 2
        assert memory.upkeep.health().counts["secrets"] == 0
        assert memory.upkeep.doctor().healthy
    raw = b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))
    assert not any(value in raw for value in (b"hunter2x9Q7", b"4111 1111", b"5555555555554444"))


def test_the_command_line_repeats_no_secret(tmp_path: Path) -> None:
    said = process("remember", "Dana", "--metadata", '{"password": "hunter2x9Q7"', cwd=tmp_path)
    assert said.returncode == 2
    assert "hunter2x9Q7" not in said.stdout + said.stderr
