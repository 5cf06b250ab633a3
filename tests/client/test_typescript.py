"""The TypeScript client: as the server's OpenAPI document has it, and used by Node against a real server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keepstone import Memory
from tests.server.running import running
from tools.make_typescript import FOLDER, render

NODE = shutil.which("node")


def test_the_committed_files_are_those_of_this_server() -> None:
    for name, text in render().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, f"{name} is old: run tools/make_typescript.py"


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_node_uses_every_part_of_a_request_against_a_real_server() -> None:
    with Memory.open(":memory:") as memory, running(memory) as server:
        script = Path(__file__).with_name("typescript.mjs")
        done = subprocess.run(
            [str(NODE), str(script), server.url, server.key("dana")], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    declared = re.findall(r"^  (\w+)\(.*\): Promise<", (FOLDER / "keepstone.d.ts").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(declared) == set(json.loads(done.stdout)) - {"constructor", "_request"}
    assert {"remember", "rememberMany", "recall", "forget", "promote", "costs", "upkeepRun", "reviewResolve"} <= set(declared)
