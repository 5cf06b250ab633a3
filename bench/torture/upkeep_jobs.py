"""The jobs of upkeep that are killed: what a store is filled with for each, what it does, and what must hold whenever it is cut
off.

A check raises Broken for what must never be, and says how much of the job is done: "none", "some" or "all" of it.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import apsw

from bench.torture.upkeep_support import (
    FACTS,
    START,
    Check,
    Job,
    JobContext,
    contents,
    embedded_by,
    must,
    open_at,
    other,
    share,
    store_facts,
    traces,
    word,
)
from bench.verbs import everything
from keepstone import Memory
from keepstone.maintenance.store_migration import move_store
from keepstone.stores.sqlite.free_space import VFS

POLICY = {"compact_days": 60, "fade_importance": 0.2, "cap": 20, "purge_days": 1}
WORDS = [word(4, number) for number in range(700)]
PLACES = {f"s{number}": word(5, number) for number in range(12)}
PERMITS = [f"The parking permit p{number}q is valid until May." for number in range(100)]
BROUGHT = [f"Crate {number} is called {word(6, number)}." for number in range(700)]  # more than one batch of an import


# -- putting aside: one transaction -------------------------------------------------------------------------------
def _unimportant(target: str, beside: str) -> None:
    store_facts(target, FACTS, importance=0.1)


def _archive(gone: int) -> Check:
    def check(stage: JobContext) -> str:
        archived, active = stage.memory.upkeep.archived(), everything(stage.memory)
        must(len(archived) in (0, gone), f"{len(archived)} of {gone} are aside")
        must(len({each.ticket for each in archived}) <= 1, "what one job put aside has several tickets")
        must(sorted(contents(active) + [each.record.content for each in archived]) == sorted(FACTS), "texts are gone or doubled")
        return share(len(archived), gone)

    return check


def _lapsing(target: str, beside: str) -> None:
    store_facts(target, FACTS[:100], ttl=60)
    store_facts(target, FACTS[100:])


def _lapsed(stage: JobContext) -> str:
    archived = stage.memory.upkeep.archived()
    must(len(archived) in (0, 100), f"{len(archived)} of 100 are aside")
    must({each.record.content for each in archived} <= set(FACTS[:100]), "what lives on was put aside")
    must(sorted(contents(everything(stage.memory))) == sorted(FACTS[100:]), "what lives on is not all there")
    return share(len(archived), 100)


def _put_aside(target: str, beside: str) -> None:
    _unimportant(target, beside)
    with open_at(target) as memory:
        must(len(memory.upkeep.age().ids) == len(FACTS), "not everything was put aside")


def _undo(stage: JobContext) -> None:
    for ticket in {each.ticket for each in stage.memory.upkeep.archived()}:
        stage.memory.upkeep.undo(ticket)


def _undone(stage: JobContext) -> str:
    left = _archive(len(FACTS))(stage)
    return {"all": "none", "none": "all"}[left]


# -- content ------------------------------------------------------------------------------------------------------
def _compacted(stage: JobContext) -> str:
    """A group is aside with its digest, or active without."""
    memory = stage.memory
    archived = {each.record.id: each for each in memory.upkeep.archived()}
    active = everything(memory)
    digests = [record for record in active if "compacted" in record.metadata]
    originals = [id for digest in digests for id in digest.parents]
    must(sorted(originals) == sorted(archived), "what is aside has no digest, or a digest has none aside")
    for digest in digests:
        held = [archived[id].record.content for id in digest.parents]
        must(len({archived[id].ticket for id in digest.parents}) == 1, "one digest has several tickets")
        must(all(archived[id].why == "compacted" for id in digest.parents), "what is compacted is aside for another reason")
        must(all(content.split()[0] in digest.content for content in held), "a digest leaves out whom it is about")
    plain = [record.content for record in active if record not in digests]
    must(sorted([each.record.content for each in archived.values()] + plain) == sorted(FACTS[:150]), "texts are gone or doubled")
    left = memory.upkeep.compact(dry_run=True)
    return "all" if not left.groups else "some" if digests else "none"


def _reembedded(stage: JobContext) -> str:
    """The old vectors all serve, or the new ones."""
    moved = embedded_by(stage.target) == other().id
    must(stage.memory._engine.store.pending_count() == 0, "some wait for a vector")
    must(all(record.embedded for record in everything(stage.memory)), "some have no vector")
    with open_at(stage.target, embedder=other() if moved else "auto") as served:
        for fact in FACTS[::60]:
            hit = served.recall(fact)[0]
            must(hit.content == fact and hit.signals["semantic"] > 0.99, f"vectors are mixed: {hit.signals}")
    return "all" if moved else "none"


def _passing(target: str, beside: str) -> None:
    store_facts(target, PERMITS)


def _verified(stage: JobContext) -> str:
    """Flags are on the review list, each once, and no memory is touched."""
    must(sorted(contents(everything(stage.memory))) == sorted(PERMITS), "texts are gone or doubled")
    wanted = sorted((flag.id, flag.flag) for flag in stage.memory.upkeep.verify(dry_run=True).flags)
    listed = sorted((item.id, item.flag) for item in stage.memory.review)
    must(len(wanted) == len(PERMITS), f"{len(wanted)} of {len(PERMITS)} are stale")
    must(len(set(listed)) == len(listed) and set(listed) <= set(wanted), "the review list has what it should not have")
    return share(len(listed), len(wanted))


# -- erasing ------------------------------------------------------------------------------------------------------
def _purging(target: str, beside: str) -> None:
    store_facts(target, [f"Item {number} is called {each}." for number, each in enumerate(WORDS)])
    with open_at(target, START + timedelta(days=300)) as memory:
        must(len(memory.upkeep.age(older_than=86_400).ids) == len(WORDS), "not everything was put aside")


def _purged(stage: JobContext) -> str:
    archived = stage.memory.upkeep.archived()
    for each in archived:
        must(contents(stage.memory.history(each.record.id)) == [each.record.content], "a record is there without its past")
    if not archived and stage.on_disk:
        must(traces(Path(stage.target), WORDS) == [], "what was purged is still in the file")
    return share(len(WORDS) - len(archived), len(WORDS))


def _talks(target: str, beside: str) -> None:
    with open_at(target, START) as memory:
        for session, place in PLACES.items():
            talk = memory.conversation(session)
            said = [f"My project {session} is called {place}.", f"I live in {place}.", "I prefer tea.", "We meet on Monday."]
            for text in said:
                talk.add("user", text)
            talk.consolidate()


def _forget(stage: JobContext) -> None:
    for each in stage.memory.conversation.list():
        stage.memory.forget(session=each.name)


def _forgotten(stage: JobContext) -> str:
    """A session takes its facts along, or nothing is forgotten."""
    memory, records = stage.memory, everything(stage.memory)
    there = {session for session in PLACES if any(record.session == session for record in records)}
    texts = " ".join(content for record in records for content in contents(memory.history(record.id)))
    for session, place in PLACES.items():
        said = [record for record in records if record.session == session and record.kind == "message"]
        must(len(said) == (4 if session in there else 0), "a session is there by half")
        must((place in texts) is (session in there), "a fact has outlived its session, or the other way round")
    must(all(memory.get(parent) is not None for record in records for parent in record.parents), "a parent is gone")
    if not there:
        must(records == [], "something has outlived every session")
        must(not stage.on_disk or traces(Path(stage.target), list(PLACES.values())) == [], "what was said is still in the file")
    return share(len(PLACES) - len(there), len(PLACES))


def _card(number: int) -> str:
    """A card number that its last digit confirms."""
    digits = f"4111{number:011d}"
    total = sum(sum(divmod(int(each) * 2, 10)) if at % 2 == 0 else int(each) for at, each in enumerate(digits))
    return digits + str(-total % 10)


CARDS = {f"Customer {number} pays by card": _card(number) for number in range(60)}


def _paying(target: str, beside: str) -> None:
    with open_at(target, START, cards=True) as memory:
        for text, card in CARDS.items():
            id = memory.remember(f"{text} {card}.").id or ""
            memory.update(id, f"{text} {card}, as of late.")


def _redacted(stage: JobContext) -> str:
    """What is redacted is redacted with all its past."""
    left, records = 0, everything(stage.memory)
    must(len(records) == len(CARDS), f"{len(records)} records of {len(CARDS)}")
    for record in records:
        card = next(card for text, card in CARDS.items() if record.content.startswith(f"{text} "))
        past = contents(stage.memory.history(record.id))
        must(len(past) == 2 and len({card in content for content in past}) == 1, "one version is redacted, the other is not")
        left += card in past[0]
    if not left and stage.on_disk:
        held = Path(stage.target).read_bytes()
        must(not [card for card in CARDS.values() if card.encode() in held], "what was redacted is still in the file")
    return share(len(CARDS) - left, len(CARDS))


# -- all of it ----------------------------------------------------------------------------------------------------
def _everything(target: str, beside: str) -> None:
    store_facts(target, FACTS[:60], importance=0.1)
    store_facts(target, FACTS[60:150])
    with open_at(target, START) as memory:
        memory.remember("The parking permit is 88-A.", ttl=60)
        memory.ingest([{"role": "user", "content": "I live in Lisbon."}, {"role": "user", "content": "Hello."}], session="s")
        memory.with_scope(user="dana").remember("Dana plays the cello.")


def _ran(stage: JobContext) -> str:
    memory = stage.memory
    archived, active = memory.upkeep.archived(), everything(memory)
    kept = [each.record.id for each in archived if each.why == "compacted"]
    digests = [each for each in [*active, *(each.record for each in archived)] if "compacted" in each.metadata]
    must(sorted(id for digest in digests for id in digest.parents) == sorted(kept), "what is compacted and its digests differ")
    must(len(active) + len(archived) >= 150, "something was erased that had not been aside for long")
    must(contents(everything(memory.with_scope(user="dana"))) == ["Dana plays the cello."], "another scope was touched")
    left = memory.upkeep.run(POLICY, dry_run=True).jobs
    return "all" if not left else "some" if archived else "none"


# -- moving and keeping -------------------------------------------------------------------------------------------
def _exported(stage: JobContext) -> str:
    must(sorted(contents(everything(stage.memory))) == sorted(FACTS), "texts are gone or doubled")
    if not Path(stage.beside).exists():
        return "none"
    lines = [json.loads(line)["content"] for line in Path(stage.beside).read_text(encoding="utf-8").splitlines()]
    must(sorted(lines) == sorted(FACTS), "half an export is at its path")
    return "all"


def _backup(stage: JobContext) -> None:
    if not Path(stage.beside).exists():  # it never writes over anything
        stage.memory.backup(stage.beside)


def _backed_up(stage: JobContext) -> str:
    """A backup is at its path whole, or not at all."""
    must(sorted(contents(everything(stage.memory))) == sorted(FACTS), "texts are gone or doubled")
    return "all" if Path(stage.beside).exists() and _copied(stage.beside) else "none"


def _moved(stage: JobContext) -> str:
    """The source stays as it is, and what has not arrived whole says so."""
    must(sorted(contents(everything(stage.memory))) == sorted(FACTS), "texts are gone or doubled")
    if not Path(stage.beside).exists():
        return "none"
    connection = apsw.Connection(stage.beside, flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS)  # closing it may write the log's pages
    try:
        records = connection.execute("SELECT count(*) FROM record").fetchall()
        marked = connection.execute("SELECT value FROM meta WHERE name = 'moving'").fetchall()
    finally:
        connection.close()
    if marked or records == [(0,)]:  # on its way, or not begun
        return "some"
    return "all" if _copied(stage.beside) else "some"


def _copied(path: str) -> bool:
    with Memory.open(path, embedder="none") as copy:
        must(sorted(contents(everything(copy))) == sorted(FACTS), "a copy has not all that the store has")
        must(copy.upkeep.doctor().healthy and copy.audit.verify().whole, "a copy is not healthy")
    return True


def _bringing(target: str, beside: str) -> None:
    with Memory.open(":memory:") as elsewhere:
        for at in range(0, len(BROUGHT), 100):
            elsewhere.remember_many(BROUGHT[at : at + 100])
        elsewhere.export(beside)
    open_at(target, START).close()


def _brought(stage: JobContext) -> str:
    there = contents(everything(stage.memory))
    must(len(set(there)) == len(there) and set(there) <= set(BROUGHT), "something is there twice")
    return share(len(there), len(BROUGHT))


def _some(target: str, beside: str) -> None:
    store_facts(target, FACTS[:150])


def _facts(target: str, beside: str) -> None:
    store_facts(target, FACTS)


JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        Job("age", _unimportant, lambda stage: stage.memory.upkeep.age(), _archive(300)),
        Job("fade", _unimportant, lambda stage: stage.memory.upkeep.fade(), _archive(300)),
        Job("cap", _unimportant, lambda stage: stage.memory.upkeep.cap(50), _archive(250)),
        Job("lapse", _lapsing, lambda stage: stage.memory.upkeep.lapse(), _lapsed),
        Job("undo", _put_aside, _undo, _undone),
        Job("compact", _some, lambda stage: stage.memory.upkeep.compact(), _compacted),
        Job("reembed", _facts, lambda stage: stage.memory.upkeep.reembed(embedder=other()), _reembedded, repeats=False),
        Job("verify", _passing, lambda stage: stage.memory.upkeep.verify(), _verified),
        Job("purge", _purging, lambda stage: stage.memory.upkeep.purge(trust_clock=True), _purged),
        Job("forget", _talks, _forget, _forgotten),
        Job("fix", _paying, lambda stage: stage.memory.upkeep.fix(), _redacted),
        Job("run", _everything, lambda stage: stage.memory.upkeep.run(POLICY), _ran),
        Job("export", _facts, lambda stage: stage.memory.export(stage.beside), _exported),
        Job("backup", _facts, _backup, _backed_up),
        Job("import", _bringing, lambda stage: stage.memory.import_(stage.beside), _brought),
        Job("move", _facts, lambda stage: move_store(stage.target, stage.beside), _moved, repeats=False),
    )
}
