"""How often other memories find what answers, beside keepstone: the same conversations, questions, embedder and score.
`python -m bench quality --peers …`.

Each conversation goes into a scope of its own, turn by turn in the order of its dates. Where turns have names, the others are
given them twice, as "name: what was said" and without, and the better score counts. keepstone is told names, dates and when a
question is asked by themselves, which is what its interface takes.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import quality
from bench.datasets import Case
from bench.measure import progress, table
from bench.peers.environments import FOLDER, EnvironmentFailed, environment, weights
from bench.peers.figures import commit
from bench.peers.turns import Child, PeerFailed
from bench.retrieval import METRICS, Found, means, rank_units, scored
from bench.speed import machine

CALL = 500  # turns in one message to a child
Figures = dict[str, Any]


def measure_peers(
    cases: Sequence[Case], dataset: str, names: Sequence[str], embedder: str, jobs: int, argv: list[str]
) -> Figures:
    """The object that `bench quality --peers` prints."""
    minilm = embedder.startswith("minilm")
    embedder = f"minilm:{weights()}" if embedder == "minilm" else embedder
    progress("keepstone")
    found = {"keepstone": _part(quality.figures(quality.run_all(cases, embedder, jobs).asked))}
    versions: dict[str, str] = {}
    left_out: dict[str, str] = {}
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="quality-", dir=FOLDER, ignore_cleanup_errors=True) as folder:
        for name in (each for each in names if each != "keepstone"):
            progress(name)
            try:
                with Child(environment(name, minilm), Path(folder) / "peers.log") as child:
                    opened = child.ask("open", path=str(Path(folder) / name), embedder=embedder)
                    versions[name] = opened["version"]
                    found[name] = _best(child, cases)
            except (EnvironmentFailed, PeerFailed) as error:
                left_out[name] = str(error)
    peers = {dataset: found, "unit": cases[0].unit, "embedder": embedder.partition(":")[0], "left_out": left_out}
    return {"bench": "quality", "machine": {**machine(), "commit": commit(), "versions": versions},
            "command": f"python -m bench quality {shlex.join(argv)}", "peers": peers}  # fmt: skip


def show(found: Figures) -> None:
    """The figures as tables."""
    table("machine", found["machine"])
    for dataset, names in found["peers"].items():
        if isinstance(names, dict) and dataset != "left_out":
            table(f"{dataset}: {found['peers']['unit']}s found, embedder {found['peers']['embedder']}", names)
    if found["peers"]["left_out"]:
        table("left out", found["peers"]["left_out"])


def _part(figures: Figures) -> Figures:
    wanted = ("questions", *METRICS, *(f"turn_{name}" for name in (*METRICS, "questions")))
    return {name: figures[name] for name in wanted if name in figures}


def _best(child: Child, cases: Sequence[Case]) -> Figures:
    """One memory's score, with names in the texts or without, whichever finds more."""
    without = _ask_questions(child, cases, False)
    if not any(turn.name for case in cases for session in case.sessions for turn in session.turns):
        return without
    ways = [without | {"names": "without"}, _ask_questions(child, cases, True) | {"names": "with"}]
    return max(ways, key=lambda each: each["frac@10"])


def _ask_questions(child: Child, cases: Sequence[Case], named: bool) -> Figures:
    """One memory's score over all cases."""
    rows, turn_rows = [], []
    for number, case in enumerate(cases):
        scope, places = f"case{number}{'named' if named else ''}", {}
        for keys, contents, units in _batches(case, scope, named):
            child.ask("preload", scope=scope, texts=contents, keys=keys)
            places.update(zip(keys, units, strict=True))
        asked = [each for each in case.questions if each.gold]
        answer = child.ask("recall", scope=scope, questions=[each.text for each in asked], limit=quality.LIMIT) if asked else {}
        for question, hits in zip(asked, answer.get("found", ()), strict=True):
            found = [Found(*places[key], 1 / rank, 1 / rank) for rank, (key, _) in enumerate(hits, 1)]
            rows.append(scored(rank_units(found), question.gold))
            if question.gold_turns:
                turn_rows.append(scored([hit.turn for hit in found], question.gold_turns))
    figures: Figures = {"questions": len(rows), **means(rows)}
    if turn_rows:
        figures |= {f"turn_{name}": value for name, value in means(turn_rows).items()} | {"turn_questions": len(turn_rows)}
    return figures


def _batches(case: Case, scope: str, named: bool) -> Iterator[tuple[list[str], list[str], list[tuple[str, str]]]]:
    """Keys, texts, and the unit and turn that each belongs to."""
    said = [
        (f"{turn.name}: {turn.text}" if named and turn.name else turn.text, session.unit if case.unit == "session" else turn.unit,
         turn.unit)
        for session in sorted(case.sessions, key=lambda each: each.when)
        for turn in session.turns
        if turn.text.strip()
    ]  # fmt: skip
    for at in range(0, len(said), CALL):
        part = said[at : at + CALL]
        keys = [f"{scope}-{at + each}" for each in range(len(part))]
        yield keys, [content for content, _, _ in part], [(unit, turn) for _, unit, turn in part]
