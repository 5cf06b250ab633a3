"""How fast other memories add and recall beside keepstone, by turns. `python -m bench speed --peers …`.

Stores are filled first, by two processes at once and in memory where there is room, because filling is not measured. Then every
figure is taken with all memories open: a block of questions to one, then to the next.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.measure import progress
from bench.peers import stores
from bench.peers.environments import MAIN, Environment, EnvironmentFailed, environment, weights
from bench.peers.serving import ONLY_SCOPE
from bench.peers.stores import SCOPES, Plan
from bench.peers.turns import Child, PeerFailed, Tally, turns
from bench.texts import Text, texts

TOP = 5
BLOCK = 20  # questions to one memory before it is the next one's turn
BULK, CALL = 5000, 500  # texts added in bulk, and how many in one call
BULK_SECONDS = 30  # after which a memory adds no more in bulk
USUAL = 10_000  # the largest store with the usual embedder: all-MiniLM-L6-v2 embeds some hundred texts a second
STARTS = 5
STATIC = "keepstone's default, static vectors of 256 dimensions, called in the process of each"
MINILM = "all-MiniLM-L6-v2 on ONNX Runtime"
USUALLY = {
    "keepstone": STATIC.split(",")[0], "chroma": f"{MINILM}, its default", "mempalace": f"{MINILM}, its default",
    "mem0": f"{MINILM}; its default is a hosted model of OpenAI's", "langgraph": f"{MINILM}; it has no default, its guides use "
    "hosted models", "numpy": MINILM, "fts5": "none, words only",
}  # fmt: skip


@dataclass(slots=True)
class Run:
    """One run: the memories, and what has been found."""

    plan: Plan
    environments: dict[str, Environment] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, dict[str, str]] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    embedders: dict[str, str] = field(default_factory=lambda: {"same": "auto"})

    def leave_out(self, name: str, what: str, why: object) -> None:
        """Note why a memory has no figure."""
        progress(f"{name} is left out of {what}: {why}")
        self.left_out.setdefault(name, {})[what] = str(why)

    def child(self, stack: ExitStack, name: str, path: Path, kind: str = "same") -> Child:
        """A memory with a store open, which is closed at the end."""
        child = Child(self.environments[name], self.plan.log)
        stack.callback(self._close, child)
        opened = child.ask("open", path=str(path), embedder=self.embedders[kind])
        self.versions[name] = opened["version"]
        self.found.setdefault("ways", {})[name] = opened["ways"]
        return child

    def opened(self, stack: ExitStack, folders: dict[str, Path], kind: str, what: str) -> dict[str, Child]:
        """The memories whose store can be opened."""
        children: dict[str, Child] = {}
        for name, path in folders.items():
            self.attempt(name, what, lambda n=name, p=path: children.setdefault(n, self.child(stack, n, p, kind)))
        return children

    def attempt(self, name: str, what: str, work: Callable[[], Any]) -> bool:
        """Run something; return whether it worked, and note the reason if not."""
        try:
            work()
        except PeerFailed as error:
            self.leave_out(name, what, error)
            return False
        return True

    def _close(self, child: Child) -> None:
        self.attempt(child.name, "close", child.close)


def measure(plan: Plan) -> tuple[dict[str, Any], dict[str, str]]:
    """Every figure of a plan, and the versions of the memories."""
    run = Run(plan)
    for name in plan.names:
        try:
            run.environments[name] = environment(name, minilm="usual" in plan.kinds)
        except EnvironmentFailed as error:
            run.leave_out(name, "all", error)
    run.found["texts"] = {"made": "bench.texts, seed 1", "asked": "the fact in other words", "limit": TOP}
    run.found["embedders"] = {"same": STATIC}
    if "usual" in plan.kinds:
        run.embedders["usual"] = f"minilm:{weights()}"
        run.found["embedders"]["usual"] = {name: USUALLY[name] for name in run.environments}
    for kind in plan.kinds:
        if "add" in plan.parts:
            add(run, kind)
        for size in sorted(plan.sizes) if "recall" in plan.parts else []:
            if kind == "usual" and size > USUAL:
                run.found["embedders"]["usual_up_to"] = USUAL
                continue
            recall(run, kind, size)
    if "many" in plan.parts and max(plan.sizes) >= SCOPES * 100:
        many(run)
    if "start" in plan.parts:
        start(run, min(plan.sizes, key=lambda size: abs(size - 10_000)))
    run.found["size"] = {
        name: {"install_mb": each.install_mb, "packages": each.packages}
        for name, each in run.environments.items()
        if each.install_mb is not None
    }
    run.found["left_out"] = run.left_out
    return run.found, run.versions


def add(run: Run, kind: str) -> None:
    """Texts in bulk into an empty store, then one at a time into what is there."""
    progress(f"adding, embedder {kind}")
    bulk = BULK if kind == "same" else CALL  # the time of another embedder in bulk is the embedder's
    wanted = texts(bulk + run.plan.rounds, seed=3)
    done: dict[str, Tally] = {}
    with ExitStack() as stack:
        folders = {name: run.plan.fresh(f"add-{kind}", name) for name in run.environments}
        children = run.opened(stack, folders, kind, "add")
        filled = {name: Tally() for name in children}
        for name, part in turns(list(children), bulk, CALL):
            if filled[name].seconds < BULK_SECONDS and run.attempt(
                name, "bulk", lambda n=name, p=part: filled[n].take(_send_texts(children[n], "fill", wanted, p))
            ):
                filled[name].count += part.stop - part.start
        adding = [name for name in children if name != "numpy"]
        done = {name: Tally() for name in adding}
        for name, part in turns(adding, run.plan.rounds, BLOCK):
            after = slice(bulk + part.start, bulk + part.stop)
            run.attempt(name, "add", lambda n=name, p=after: done[n].take(_send_texts(children[n], "add", wanted, p)))
        if kind == "same":
            rates = {name: round(each.count / each.seconds) for name, each in filled.items() if each.seconds}
            ways = run.found["ways"]
            run.found.setdefault("bulk", {})[kind] = {
                name: {"per_s": rate, "way": ways[name]["bulk"], "texts": filled[name].count} for name, rate in rates.items()
            }
            run.found["durable"] = {
                name: children[name].ask("durable")["durable"] for name in adding if "add" not in run.left_out.get(name, {})
            }
    run.found.setdefault("add", {})[kind] = {name: each.times.summary() for name, each in done.items() if each.times.wall}


def recall(run: Run, kind: str, size: int) -> None:
    """Questions about a store of one size."""
    progress(f"recall at {size} memories, embedder {kind}")
    wanted = texts(size)
    asked = random.Random(4).sample(wanted, min(run.plan.rounds, size))
    folders = stores.prepare_stores(run, kind, str(size), {ONLY_SCOPE: wanted})
    with ExitStack() as stack:
        children = run.opened(stack, folders, kind, str(size))
        for name in list(children):  # the first question loads
            if not run.attempt(name, str(size), lambda n=name: _ask_questions(children[n], ONLY_SCOPE, asked[:1], Tally())):
                del children[name]
        done = {name: Tally() for name in children}
        for name, part in turns(list(children), len(asked), BLOCK):
            if name in done and done[name].seconds < run.plan.recall_seconds:
                run.attempt(name, str(size), lambda n=name, p=part: _ask_questions(children[n], ONLY_SCOPE, asked[p], done[n]))
        if kind == "same":
            well = [name for name in children if str(size) not in run.left_out.get(name, {})]
            run.found.setdefault("resident_mb", {})[str(size)] = {name: children[name].ask("resident")["mb"] for name in well}
            run.found.setdefault("disk_mb", {})[str(size)] = {name: stores.disk_mb(folders[name]) for name in well}
    done = {name: each for name, each in done.items() if each.count}
    for part, figures in (
        ("recall", {name: each.times.summary() for name, each in done.items()}),
        ("found_at_5", {name: round(each.correct / each.count, 3) for name, each in done.items()}),
        ("questions", {name: each.count for name, each in done.items()}),
    ):
        run.found.setdefault(part, {}).setdefault(kind, {})[str(size)] = figures


def many(run: Run) -> None:
    """Two questions in each of some scopes of a store that has a thousand: the first there since it was opened, and the next."""
    total = SCOPES * 100
    progress(f"{total} memories over {SCOPES} scopes")
    wanted = texts(total)
    shares = {f"user{number}": wanted[number * 100 : (number + 1) * 100] for number in range(SCOPES)}
    folders = stores.prepare_stores(run, "same", f"{total} over {SCOPES}", shares)
    parse_names = random.Random(6).sample(sorted(shares), min(run.plan.rounds, SCOPES))
    with ExitStack() as stack:
        children = run.opened(stack, folders, "same", "many")
        first, again = ({name: Tally() for name in children} for _ in range(2))
        for name, part in turns(list(children), len(parse_names), BLOCK):
            for scope in parse_names[part] if first[name].seconds < run.plan.recall_seconds else []:
                for done, at in ((first, 0), (again, 1)):
                    about = shares[scope][at : at + 1]
                    run.attempt(name, "many", lambda n=name, s=scope, a=about, d=done: _ask_questions(children[n], s, a, d[n]))
    named = ((f"{total} over {SCOPES}", first), (f"{total} over {SCOPES}, again", again))
    run.found["many"] = {key: {name: each.times.summary() for name, each in done.items() if each.count} for key, done in named}
    run.found["many_found_at_5"] = {name: round(each.correct / each.count, 3) for name, each in first.items() if each.count}


def start(run: Run, size: int) -> None:
    """A new process: import, open, first recall, end. Loading the embedder into other memories' processes is not counted."""
    progress(f"cold start at {size} memories")
    wanted = texts(size)
    folders = {
        name: path
        for name, path in stores.prepare_stores(run, "same", str(size), {ONLY_SCOPE: wanted}).items()
        if name not in MAIN
    }
    parts: dict[str, list[dict[str, float]]] = {name: [] for name in folders}
    for name, _ in turns(list(folders), STARTS, 1):
        run.attempt(name, "start", lambda n=name: parts[n].append(_time_start(run, n, folders[n], wanted[0].question)))
    run.found["start"] = {
        name: {key: round(statistics.median(each[key] for each in taken), 1) for key in taken[0]}
        for name, taken in parts.items()
        if taken
    }


def _time_start(run: Run, name: str, path: Path, question: str) -> dict[str, float]:
    begun = time.perf_counter()
    with Child(run.environments[name], run.plan.log) as child:
        opened = child.ask("open", path=str(path), embedder=run.embedders["same"])
        wall = child.ask("recall", scope=ONLY_SCOPE, questions=[question], limit=TOP)["wall"][0]
    taken = (time.perf_counter() - begun) * 1e3 - opened["embedder_ms"]
    return {"import_ms": opened["import_ms"], "open_ms": opened["open_ms"], "first_recall_ms": wall * 1e3, "process_ms": taken}


def _send_texts(child: Child, how: str, wanted: list[Text], part: slice) -> dict[str, Any]:
    keys = [f"k{number}" for number in range(part.start, part.stop)]
    return child.ask(how, scope=ONLY_SCOPE, texts=[text.content for text in wanted[part]], keys=keys)


def _ask_questions(child: Child, scope: str, about: list[Text], done: Tally) -> None:
    answer = child.ask("recall", scope=scope, questions=[text.question for text in about], limit=TOP)
    done.take(answer)
    done.count += len(about)
    done.correct += sum(
        any(content == text.content for _, content in hits) for hits, text in zip(answer["found"], about, strict=True)
    )
