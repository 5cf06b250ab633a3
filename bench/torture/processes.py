"""Eight processes write and four read, all on one store: nothing lost, nothing twice, no error seen, every acknowledged write
found by a reader afterwards. As a module it is one of the processes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.torture.children import environment
from bench.torture.targets import Files, Place, databases
from bench.torture.verdict import Options, Verdict
from bench.verbs import everything
from keepstone import KeepstoneError, Memory

WRITERS, READERS = 8, 4
OWN, SHARED = 15, 10  # what each writer says alone, and what all of them say, in a round
PATIENCE = 300.0  # seconds until all must have come to their end


def rounds(target: str, folder: Path, verdict: Verdict, own: int = OWN, shared: int = SHARED) -> None:
    """All processes at once; what they were told is compared with what is there."""
    log, total = folder / "acknowledged", WRITERS * (own + shared)
    log.unlink(missing_ok=True)
    jobs = [["write", number, own, shared] for number in range(WRITERS)] + [["read", total] for _ in range(READERS)]
    children = [_start(target, log, job) for job in jobs]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()  # ready
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=PATIENCE)[0] for child in children]
    told = [json.loads(each) if each else {"errors": ["a process ended without a word"]} for each in said]
    verdict.tries += len(children)
    for each in told:
        verdict.errors += len(each["errors"])
        verdict.problems += each["errors"]
    _compare(target, verdict, told[:WRITERS], shared)
    for reader in told[WRITERS:]:
        verdict.lost += len(reader.get("missed", ()))
        verdict.problems += [f"a reader did not find {each}" for each in reader.get("missed", ())]
    checked = [reader.get("checked", 0) for reader in told[WRITERS:]]
    if not all(checked):
        verdict.problems.append("a reader has looked for nothing")
    verdict.figures["looks"] = verdict.figures.get("looks", 0) + sum(checked)


def _compare(target: str, verdict: Verdict, told: list[dict[str, Any]], shared: int) -> None:
    written = [each.get("actions", {}) for each in told]
    verdict.acknowledged += sum(map(len, written))
    for at in range(shared):
        outcomes = [actions.get(f"shared{at}q", ["nothing", None]) for actions in written]
        if sorted(action for action, _ in outcomes) != ["added", *["duplicate"] * (WRITERS - 1)]:
            verdict.duplicates += 1
            verdict.problems.append(f"what all have said became {[action for action, _ in outcomes]}")
        if len({id for _, id in outcomes}) != 1:
            verdict.duplicates += 1
            verdict.problems.append("what all have said is in several records")
    with Memory.open(target) as memory:
        ids = [record.id for record in everything(memory)]
        findings = memory.upkeep.doctor().findings
        whole = memory.audit.verify().whole
    promised = {id for actions in written for _, id in actions.values()}
    verdict.lost += len(promised - set(ids))
    verdict.duplicates += len(ids) - len(set(ids)) + len(set(ids) - promised)
    verdict.drift += len(findings)
    verdict.problems += [f"doctor, {each.check}: {each.problem}" for each in findings]
    verdict.problems += [] if whole else ["the audit trail is not whole"]
    if set(ids) != promised:
        verdict.problems.append(f"{len(ids)} records are there, {len(promised)} were acknowledged")


def _start(target: str, log: Path, job: list[Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.torture.processes", target, str(log), json.dumps(job)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def _verdict(row: str, place: Place, options: Options) -> Verdict:
    begun = time.monotonic()
    verdict = Verdict(row, place.kind, figures={"writers": WRITERS, "readers": READERS})
    for number in range(max(1, options.rounds // 5)):
        if number and options.seconds is not None and time.monotonic() > begun + options.seconds:
            break
        target = place.fresh(f"processes{number}")
        rounds(target, options.folder, verdict)
        place.drop(target)
    verdict.seconds = time.monotonic() - begun
    return verdict


def run(options: Options) -> Verdict:
    """Twelve processes on one file."""
    return _verdict("processes", Files(options.folder), options)


def postgres(options: Options) -> Verdict:
    """Twelve processes on one server."""
    with databases(options) as place:
        return _verdict("processes-postgres", place, options)


# -- one of the processes -----------------------------------------------------------------------------------------
def _write(target: str, log: Path, number: int, own: int, shared: int) -> dict[str, Any]:
    acknowledged = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    words = [f"own{number}x{at}q" for at in range(own)] + [f"shared{at}q" for at in range(shared)]
    random.Random(number).shuffle(words)
    actions: dict[str, Any] = {}
    errors: list[str] = []
    with Memory.open(target) as memory:
        for word in words:
            try:
                receipt = memory.remember(f"The parcel {word} stands in hall {len(word)} of the depot.")
            except KeepstoneError as error:
                errors.append(f"a writer was told {type(error).__name__}: {error}")
            else:
                actions[word] = [receipt.action, receipt.id]
            os.write(acknowledged, f"{word} {actions.get(word, [None, None])[1]}\n".encode())
    return {"actions": actions, "errors": errors}


def _read(target: str, log: Path, total: int) -> dict[str, Any]:
    missed: list[str] = []
    errors: list[str] = []
    checked = most = 0
    with Memory.open(target) as memory:
        while True:
            text = log.read_text() if log.exists() else ""
            known = text[: text.rfind("\n") + 1].splitlines()  # a line may be half written
            for line in {*known[-1:], *random.sample(known, min(2, len(known)))}:
                word, id = line.split()
                try:
                    hits = memory.recall(f"parcel {word}", limit=20)
                except KeepstoneError as error:
                    errors.append(f"a reader was told {type(error).__name__}: {error}")
                    continue
                checked += 1
                if id not in [hit.id for hit in hits]:
                    missed.append(line)
                if hits.considered < most:
                    missed.append(f"{most} records before, {hits.considered} now")
                most = max(most, hits.considered)
            if len(known) >= total:
                return {"checked": checked, "missed": missed, "errors": errors}


def main(argv: list[str]) -> int:
    """Be ready, wait for the word to go, write or read, and say what was seen."""
    target, log, (kind, *numbers) = argv[0], Path(argv[1]), json.loads(argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        found = (_write if kind == "write" else _read)(target, log, *numbers)
    except KeepstoneError as error:
        found = {"errors": [f"a process that {kind}s was told {type(error).__name__}: {error}"]}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
