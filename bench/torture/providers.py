"""Embedders and models behind a service that misbehaves, on both stores: what was said is stored, words find it, and the rest is
caught up once the service is well.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.restarts import everything
from bench.torture.support import check_store
from bench.torture.targets import databases
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from keepstone.embedders.openai import OpenAIEmbedder
from keepstone.models.anthropic import AnthropicModel
from keepstone.models.openai import OpenAIModel
from tests.embedders import embeddings_endpoint
from tests.embedders.embeddings_endpoint import Embeddings, changed, every, sound
from tests.models import endpoint
from tests.models.endpoint import Endpoint, Step, say

NAN, INFINITE = float("nan"), float("inf")
VECTORS: dict[str, embeddings_endpoint.Step] = {
    "a timeout": embeddings_endpoint.slow(),
    "429": embeddings_endpoint.status(429, retry_after="0"),
    "500": embeddings_endpoint.status(500, retry_after="0"),
    "an empty list": changed(lambda rows: []),
    "cut JSON": embeddings_endpoint.garbage(),
    "an empty body": embeddings_endpoint.garbage(b" "),
    "a cut connection": embeddings_endpoint.cut(),
    "too few": changed(lambda rows: rows[:-1]),
    "too many": changed(lambda rows: [*rows, {**rows[-1], "index": len(rows)}]),
    "another dimension": every(lambda row: row[:-3]),
    "NaN": every(lambda row: [NAN, *row[1:]]),
    "infinite": every(lambda row: [INFINITE, *row[1:]]),
    "zero": every(lambda row: [0.0] * len(row)),
}
PASSING = ("a timeout", "429", "500", "a cut connection")  # what a call tries again by itself, after a pause
GOOD = {"turns": [1], "content": "The user lives in Porto.", "type": "profile", "key": "home.city", "confidence": 0.9}
ANSWER = json.dumps({"facts": [GOOD]})
ANSWERS: dict[str, Step] = {
    "a timeout": endpoint.slow(),
    "429": endpoint.status(429),
    "500": endpoint.status(500),
    "an empty answer": endpoint.empty(),
    "a refusal": endpoint.empty("refusal"),
    "garbage": endpoint.garbage(),
    "a cut connection": endpoint.cut(ANSWER),
    "no JSON": say("I will not."),
    "another shape": say('{"weather": "fine"}'),
    "half a JSON": say('{"facts": [{"turns": [1], "content": "The us', stop="length"),
}
SAID = ("I live in Porto.", "The locker code is 4471.")
TRIES = 5  # after so many a job is given up
SHORT = 0.3  # seconds that a service may be silent


def run(options: Options) -> Verdict:
    """Every fault of both kinds of service on both stores, once for every twenty rounds."""
    verdict = Verdict("providers", "both")
    begun = time.monotonic()
    with databases(options) as there:
        for turn in range(max(1, options.rounds // 20)):
            for store in ("sqlite", "postgres"):
                if options.seconds is not None and turn and time.monotonic() - begun > options.seconds:
                    break
                where = there.fresh(f"providers{turn}") if store == "postgres" else options.folder / f"providers{turn}.db"
                embedders(verdict, store, where)
                models(verdict, store, where)
                check_store(verdict, where, store)
    verdict.figures |= {"embedder faults": list(VECTORS), "model faults": list(ANSWERS)}
    verdict.seconds = time.monotonic() - begun
    return verdict


class Checks:
    """What must hold under one fault; what does not is a problem of the verdict."""

    def __init__(self, verdict: Verdict, label: str) -> None:
        self._verdict, self._label = verdict, label

    def __call__(self, right: bool, what: str) -> None:
        if not right:
            self._verdict.errors += 1
            self._verdict.problems.append(f"{self._label}: {what}")


# -- embedders ----------------------------------------------------------------------------------------------------------
def embedders(verdict: Verdict, store: str, where: str | Path, faults: Mapping[str, embeddings_endpoint.Step] = VECTORS) -> None:
    """Write, read and catch up under each fault of an embedder, as a user of its own."""
    for name, fault in faults.items():
        verdict.tries += 1
        with Embeddings() as service:
            made = OpenAIEmbedder("any", base_url=service.url, timeout=SHORT if name == "a timeout" else 20.0, retries=1)
            with Memory.open(where, embedder=made, user=f"under {name}") as memory:
                _embedder(verdict, Checks(verdict, f"{store}, embedder: {name}"), memory, service, name, fault)


def _embedder(
    verdict: Verdict, check: Checks, memory: Memory, service: Embeddings, name: str, fault: embeddings_endpoint.Step
) -> None:  # fmt: skip
    memory.remember("The first fact is embedded before anything goes wrong.")
    service.always = fault
    asked = len(service.requests)
    texts = ["My car is parked at the harbour.", "The doctor sees me on Monday.", "The plumber comes at noon."]
    receipts = [memory.remember(texts[0])]
    tries = len(service.requests) - asked
    check(tries == 1 + (name in PASSING), f"the service was asked {tries} times, and what may pass is tried once more")
    receipts += memory.remember_many(texts[1:])
    receipts += memory.ingest([{"role": "user", "content": "I sold the piano."}], session="s")
    receipts.append(memory.remember("blue", key="front door colour"))
    check([each.action for each in receipts] == ["added"] * 5, f"writes were {[each.action for each in receipts]}")
    check(all(any("reembed" in reason for reason in each.reasons) for each in receipts), "a receipt does not say what is missing")
    verdict.acknowledged += len(receipts)
    held = [memory.get(str(each.id)) for each in receipts]
    verdict.lost += sum(each is None for each in held)
    check(all(each is not None and not each.embedded for each in held), "a text is not there, or said to be embedded")
    found = memory.recall("Where is my car parked?")
    check(bool(found) and found[0].content == texts[0], "words do not find it meanwhile")
    check(any("words only" in note for note in found.notes), "no note says that only words were searched")
    report = memory.upkeep.reembed()
    check((report.embedded, report.failed) == (0, 5) and bool(report.problem), f"what failed is reported as {report}")
    service.always = sound()
    report = memory.upkeep.reembed()
    check((report.embedded, report.failed, report.problem) == (5, 0, None), f"caught up: {report}")
    records = everything(memory)
    check(len(records) == 6 and all(record.embedded for record in records), "not everything is there and embedded")
    verdict.duplicates += len(records) - len({record.content for record in records})
    found = memory.recall("automobile", min_similarity=0)
    check(bool(found) and found[0].content == texts[0] and found.notes == (), "meaning does not find it afterwards")


# -- models -------------------------------------------------------------------------------------------------------------
def _adapters(service: Endpoint, timeout: float) -> dict[str, Callable[[], Any]]:
    told: dict[str, Any] = {"api_key": "k", "timeout": timeout, "retries": 0}
    return {
        "anthropic": lambda: AnthropicModel("any", base_url=service.url, **told),
        "openai": lambda: OpenAIModel("any", base_url=service.openai_url, **told),
    }


def models(verdict: Verdict, store: str, where: str | Path, faults: Mapping[str, Step] = ANSWERS) -> None:
    """Learn under each fault of a model, with each of the official clients, until the job is given up and taken up again."""
    for name, fault in faults.items():
        for adapter in ("anthropic", "openai"):
            verdict.tries += 1
            with Endpoint(lambda request: well if healed else fault) as service:  # noqa: B023
                well, healed = say(ANSWER), []
                model = _adapters(service, SHORT if name == "a timeout" else 20.0)[adapter]()
                settings = {"worker": False}
                user = f"{adapter} under {name}"
                with Memory.open(where, embedder="none", model=model, user=user, settings=settings) as memory:
                    _model(verdict, Checks(verdict, f"{store}, {adapter}: {name}"), memory, lambda: healed.append(True))  # noqa: B023
                service.release()


def _model(verdict: Verdict, check: Checks, memory: Memory, heal: Callable[[], None]) -> None:
    memory.ingest([{"role": "user", "content": text} for text in SAID], session="s")
    verdict.acknowledged += len(SAID)
    waits = []
    for attempt in range(TRIES):
        report = memory.jobs.run()
        check((report.done, report.failed, len(report.problems)) == (0, 1, 1), f"attempt {attempt}: {report}")
        jobs = memory.jobs.list()
        check(len(jobs) == 1, f"attempt {attempt}: {len(jobs)} jobs")
        if attempt < TRIES - 1:
            check(jobs[0].state == "waiting", f"attempt {attempt}: the job is {jobs[0].state}")
            waits.append(jobs[0].due - jobs[0].created_at)
    check(waits == sorted(waits) and len(set(waits)) == len(waits), f"it does not wait longer each time: {waits}")
    given_up = memory.jobs.list(state="failed")
    check(len(given_up) == 1 and bool(given_up[0].problem), "a job that was given up is not visible, with its problem")
    there = [message.content for message in memory.conversation.recent()]
    verdict.lost += len(set(SAID) - set(there))
    check(there == list(SAID), "what was said is not there as it was said")
    found = memory.recall("What is the locker code?", limit=1)
    check(bool(found) and found[0].content == SAID[1], "words do not find it meanwhile")
    check("locker" not in f"{given_up} {report}", "a job repeats what was said")
    heal()
    check(memory.jobs.retry() == 1, "the job cannot be taken up again")
    check(memory.jobs.run().done == 1, "the job is not done with the service well again")
    facts = [record.content for record in everything(memory) if record.kind == "fact"]
    check(facts == [GOOD["content"]], f"{len(facts)} facts were learned in the end, not one")
    check(not memory.jobs.list(), "a job is left")
