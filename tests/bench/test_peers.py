"""The benchmark of other memories: the protocol of a child, prepared stores, ratios, environments. All of it real, at tiny
sizes, with the memories that the main environment holds."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.datasets import Case, Question, Session, Turn
from bench.peers import command, environments, figures, quality, speed, stores
from bench.peers.environments import Environment
from bench.peers.serving import ONLY_SCOPE, Embedding
from bench.peers.turns import Child, PeerFailed, turns, variables
from bench.peers.use_mem0 import Mem0
from bench.texts import texts

HERE = ("keepstone", "fts5", "numpy", "chroma")  # in the main environment, too


def here(name: str) -> Environment:
    return Environment(name, sys.executable)


@pytest.mark.parametrize("name", HERE)
def test_every_memory_finds_what_it_was_given_and_only_in_its_scope(name: str, tmp_path: Path) -> None:
    wanted = texts(40)
    with Child(here(name)) as child:
        child.ask("open", path=str(tmp_path / "store"), embedder="auto")
        filled = child.ask(
            "preload", scope=ONLY_SCOPE, texts=[text.content for text in wanted], keys=[f"k{at}" for at in range(40)]
        )
        child.ask("fill", scope="bob", texts=["Bob keeps the spare key in locker 7.", "Bob drinks cold brew."], keys=["b1", "b2"])
        asked = child.ask("recall", scope=ONLY_SCOPE, questions=[text.question for text in wanted[:10]], limit=5)
        (other,) = child.ask("recall", scope="bob", questions=["Where is the spare key?"], limit=5)["found"]
    right = [text.content in [content for _, content in hits] for text, hits in zip(wanted, asked["found"], strict=False)]
    assert sum(right) >= 9
    assert [key for hits in asked["found"] for key, _ in hits if not key.startswith("k")] == []
    assert len(asked["wall"]) == len(asked["cpu"]) == 10
    assert min(asked["wall"]) > 0
    assert len(filled["wall"]) == 1
    assert "b1" in [key for key, _ in other]
    assert {key for key, _ in other} <= {"b1", "b2"}


@pytest.mark.parametrize("name", ["keepstone", "fts5"])
def test_one_added_text_is_there_for_the_next_process(name: str, tmp_path: Path) -> None:
    with Child(here(name)) as child:
        child.ask("open", path=str(tmp_path / "store"), embedder="auto")
        done = child.ask("add", scope=ONLY_SCOPE, texts=["The door code of the Oslo office is 4711."], keys=["k0"])
        assert child.ask("durable")["durable"].startswith("yes")
        assert len(done["wall"]) == 1
    with Child(here(name)) as child:
        opened = child.ask("open", path=str(tmp_path / "store"), embedder="auto")
        (hits,) = child.ask("recall", scope=ONLY_SCOPE, questions=["What is the door code of the Oslo office?"], limit=5)["found"]
        assert [content for _, content in hits] == ["The door code of the Oslo office is 4711."]
        assert child.ask("resident")["mb"] > 5
        assert set(opened["ways"]) == {"add", "bulk", "recall", "preload"}


def test_what_a_memory_raises_is_told_and_it_goes_on(tmp_path: Path) -> None:
    with Child(here("numpy")) as child:
        child.ask("open", path=str(tmp_path / "store"), embedder="auto")
        with pytest.raises(PeerFailed, match="numpy: 'add' fails with NotImplementedError"):
            child.ask("add", scope=ONLY_SCOPE, texts=["a"], keys=["k"])
        with pytest.raises(PeerFailed, match="AttributeError"):
            child.ask("sing")
        assert child.ask("resident")["mb"] > 5


def test_a_memory_that_is_gone_is_told(tmp_path: Path) -> None:
    child = Child(Environment("nothing", sys.executable))
    with pytest.raises(PeerFailed, match=r"nothing: its process ended \(exit 1\) at 'open'"):
        child.ask("open", path=str(tmp_path), embedder=None)
    child.kill()


def test_children_send_no_telemetry_and_have_only_their_folder_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    given = variables()
    assert "PYTHONPATH" not in given
    assert given["ANONYMIZED_TELEMETRY"] == given["MEM0_TELEMETRY"] == "False"


def test_turns_go_round_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.turns.PAUSE", 0)
    assert list(turns(["a", "b"], 3, 2)) == [("a", slice(0, 2)), ("b", slice(0, 2)), ("a", slice(2, 3)), ("b", slice(2, 3))]


def test_a_whole_run_has_every_figure_of_the_memories_that_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.turns.PAUSE", 0)
    monkeypatch.setattr(speed, "BULK", 60)
    monkeypatch.setattr(speed, "CALL", 30)
    monkeypatch.setattr(speed, "STARTS", 1)
    monkeypatch.setattr(speed, "environment", lambda name, minilm: here(name))
    plan = stores.Plan(("keepstone", "fts5", "numpy"), (50,), 10, tmp_path)
    found, versions = speed.measure(plan)
    assert set(versions) == {"keepstone", "fts5", "numpy"}
    assert set(found["add"]["same"]) == {"keepstone", "fts5"}
    assert {name: each["texts"] for name, each in found["bulk"]["same"].items()} == dict.fromkeys(versions, 60)
    assert set(found["recall"]["same"]["50"]) == set(versions)
    assert min(found["found_at_5"]["same"]["50"].values()) >= 0.8
    assert found["questions"]["same"]["50"] == dict.fromkeys(versions, 10)
    assert set(found["start"]) == {"keepstone"}
    assert found["start"]["keepstone"]["process_ms"] > found["start"]["keepstone"]["open_ms"] > 0
    assert min(found["disk_mb"]["50"].values()) > 0
    assert min(found["resident_mb"]["50"].values()) > 5
    assert found["left_out"] == {}
    ratios = figures.ratios(found)
    assert set(ratios["recall"]["same"]["50"]) == {"fts5", "numpy"}
    json.dumps(found)
    figures.show(found | {"ratios": ratios})


def test_a_store_that_is_there_is_not_filled_again_and_one_that_takes_too_long_is_left_out(tmp_path: Path) -> None:
    run = speed.Run(stores.Plan(("fts5",), (30,), 5, tmp_path), {"fts5": here("fts5")})
    first = stores.prepare_stores(run, "same", "30", {ONLY_SCOPE: texts(30)})
    made = (first["fts5"] / "words.db").stat().st_mtime_ns
    assert stores.prepare_stores(run, "same", "30", {ONLY_SCOPE: texts(30)}) == first
    assert (first["fts5"] / "words.db").stat().st_mtime_ns == made
    assert stores.disk_mb(first["fts5"]) > 0
    hasty = speed.Run(stores.Plan(("fts5",), (30,), 5, tmp_path, fill_seconds=0), {"fts5": here("fts5")})
    assert stores.prepare_stores(hasty, "same", "31", {ONLY_SCOPE: texts(31)}) == {}
    assert "filling 31 of 31 texts took" in hasty.left_out["fts5"]["31"]


def test_texts_that_stand_in_a_file_are_not_embedded_again(tmp_path: Path) -> None:
    with Child(here("numpy")) as child:
        child.ask("vectors", embedder="auto", texts=["green tea", "oolong"], vectors_file=str(tmp_path / "v.npy"))
    saved, plain = Embedding("auto", str(tmp_path / "v.npy")), Embedding("auto")
    assert np.allclose(saved(["oolong"]), plain(["oolong"]), atol=1e-6)
    assert saved.dimension == plain.dimension == 256
    (tmp_path / "v.json").write_text(json.dumps(["oolong", "green tea"]))
    swapped = Embedding("auto", str(tmp_path / "v.npy"))
    assert np.allclose(swapped(["oolong"]), plain(["green tea"]), atol=1e-6)
    assert not np.allclose(plain(["oolong"]), plain(["green tea"]), atol=1e-2)
    assert np.allclose(swapped(["oolong"], "query"), plain(["oolong"], "query"), atol=1e-6)
    swapped.embed_all()
    assert np.allclose(swapped(["oolong"]), plain(["oolong"]), atol=1e-6)


def test_ratios_say_how_many_times_ours_goes_into_theirs() -> None:
    found = {
        "add": {"same": {"keepstone": {"wall_p50_ms": 2.0}, "chroma": {"wall_p50_ms": 10.0}}},
        "bulk": {"same": {"keepstone": {"per_s": 3000}, "chroma": {"per_s": 1000}}},
        "recall": {"same": {"1000": {"keepstone": {"wall_p50_ms": 2.0, "cpu_p50_ms": 1.0},
                                     "fts5": {"wall_p50_ms": 1.0, "cpu_p50_ms": 1.0}}}},
        "start": {"keepstone": {"process_ms": 100.0}, "mem0": {"process_ms": 950.0}},
        "size": {"keepstone": {"install_mb": 90.0}, "mem0": {"install_mb": 180.0}},
        "disk_mb": {"1000": {"keepstone": 2.0, "chroma": 3.0}},
    }  # fmt: skip
    assert figures.ratios(found) == {
        "add": {"same": {"chroma": 5.0}},
        "bulk": {"same": {"chroma": 3.0}},
        "recall": {"same": {"1000": {"fts5": 0.5}}},
        "cpu_recall": {"same": {"1000": {"fts5": 1.0}}},
        "start": {"mem0": 9.5},
        "size": {"mem0": 2.0},
        "disk_mb": {"1000": {"chroma": 1.5}},
    }
    assert figures.ratios({"add": {"same": {"chroma": {"wall_p50_ms": 10.0}}}}) == {"add": {"same": {}}}


def test_peers_are_chosen_by_name() -> None:
    assert command.parse_names("fts5, chroma,fts5") == ("keepstone", "fts5", "chroma")
    assert command.parse_names("all") == environments.NAMES
    with pytest.raises(ValueError, match="there is no peer 'zep': use keepstone, chroma"):
        command.parse_names("zep")


def test_the_pins_of_every_environment_have_hashes_and_name_no_host() -> None:
    for name in (*environments.OWN, "minilm"):
        text = (environments.HERE / f"requirements-{name}.txt").read_text(encoding="utf-8")
        pinned = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert all("==" in line for line in pinned)
        assert text.count("--hash=sha256:") >= len(pinned) > 0
        assert "://" not in text


def test_an_environment_that_is_ready_is_used_again_and_another_lock_file_means_another_one(tmp_path: Path) -> None:
    home = tmp_path / "mem0"
    home.mkdir()
    stamp = {"digest": environments._digest("mem0"), "name": "mem0", "python": sys.executable, "install_mb": 12.5, "packages": 3}
    (home / environments.STAMP).write_text(json.dumps(stamp), encoding="utf-8")
    (home / environments.MINILM).touch()
    made = Environment("mem0", sys.executable, 12.5, 3)
    assert environments.environment("mem0", folder=tmp_path) == made
    assert environments.environment("mem0", minilm=True, folder=tmp_path) == made
    home.rename(tmp_path / "langgraph")
    assert environments._known(tmp_path / "langgraph") is None
    assert environments.environment("fts5", folder=tmp_path) == here("fts5")


def test_nothing_is_ever_installed_outside_an_environment_of_the_bench(tmp_path: Path) -> None:
    python = tmp_path / "mem0" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)  # no environment: its packages are those of the Python behind it
    with pytest.raises(environments.EnvironmentFailed, match="is not an environment of its own"):
        environments._install(python, tmp_path / "no-such-file.txt")
    with pytest.raises(environments.EnvironmentFailed, match="is not an environment of its own"):
        environments._install(Path(sys.executable), tmp_path / "no-such-file.txt")


def test_the_size_of_packages_leaves_compiled_files_out(tmp_path: Path) -> None:
    for path, count in (
        ("one/__init__.py", 1_500_000),
        ("one/__pycache__/x.pyc", 9_000_000),
        ("one-1.0.dist-info/RECORD", 500_000),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x" * count)
    assert environments.size(tmp_path) == (2.0, 1)


def test_what_cannot_be_installed_is_told() -> None:
    with pytest.raises(environments.EnvironmentFailed, match=r"x cannot be installed: .*Is a package index within reach"):
        environments._run("x", ["/nowhere/uv"], [sys.executable, "-c", "import sys; sys.exit('no such thing')"])


def test_other_memories_are_scored_by_the_turns_they_find(tmp_path: Path) -> None:
    when = datetime(2024, 3, 4, 18, 20, tzinfo=UTC)
    turns_ = (
        "I adopted a greyhound called Biscuit.",
        "My sister plays the cello in Ghent.",
        "The boiler broke again.",
        "Ok.",
        " ",
    )
    case = Case(
        "c", "turn",
        (Session("1", when, tuple(Turn(f"1:{at}", "user", text, "Ines") for at, text in enumerate(turns_))),),
        (Question("q1", "single", "What is the greyhound called?", when, frozenset({"1:0"})),
         Question("q2", "single", "Who plays the cello?", when, frozenset({"1:1"})),
         Question("q3", "absent", "Which car does she drive?", when, frozenset(), absent=True)),
    )  # fmt: skip
    with Child(here("fts5")) as child:
        child.ask("open", path=str(tmp_path / "store"), embedder=None)
        figures_ = quality._best(child, [case])
    assert figures_["questions"] == 2
    assert figures_["any@5"] == figures_["all@5"] == 1.0
    assert figures_["names"] in ("with", "without")


def test_no_memory_is_asked_with_a_language_model() -> None:
    assert "infer=False" in Mem0.ways.add
    assert "infer=False" in Mem0.ways.bulk
