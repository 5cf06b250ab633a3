"""A store with one of everything in it, and all that can be seen of a store: for tests that move one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from keepstone import Memory
from keepstone.embedders.registry import make_embedder
from keepstone.open import open_store
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import Limit, Pending, Selector, StoreOptions, Write
from keepstone.testing.builders import DIMENSION, EMBEDDER, add, draft, vector
from keepstone.testing.stores.embedding import long_text
from keepstone.text import times
from keepstone.types import Scope
from tests.server_processes import PostgresServer

EARLY, LATE = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
BETWEEN = datetime(2025, 6, 1, tzinfo=UTC)
DANA, ERIK, OTHER = Scope("local", "default", "dana"), Scope("local", "scribe", "erik"), Scope("açmé 日本", "default", "dana")
FAR = Scope("local", "default", "zoë")
QUESTIONS = ("Where does Dana live?", "What does Dana drink?", "Which invoice is missing?", "Zoë 日本語", "happy")
WIDE = ("wide-16", 16)
_databases = count()


def opened(target: str | Path) -> Store:
    """A store as it is, without guard and embedder."""
    return open_store(str(target), StoreOptions(), times.now)


def database(server: PostgresServer) -> str:
    """A database of one's own."""
    return server.database(f"moving_{next(_databases)}")


def remembering(target: str | Path, scope: Scope, **rest: Any) -> Memory:
    return Memory.open(target, tenant=scope.tenant, agent=scope.agent, user=scope.user, **({"embedder": "static"} | rest))


@dataclass(frozen=True)
class Rich:
    """What tests ask a rich store for."""

    ticket: int
    archived: tuple[str, ...]
    repeated: str  # the id that a repeated write must answer with


def furnish(target: str | Path) -> Rich:
    """Fill a store with one of everything, and something for two tenants."""
    store = opened(target)
    store.bind_embedder(EMBEDDER, DIMENSION)
    add(store, "Something old that waits for a new vector", ERIK)
    static: Any = make_embedder("static")
    store.change_embedder(static.id, static.dimension)  # what is done to the whole store leaves a row without a scope
    store.close()
    with remembering(target, DANA, settings={"writes_per_minute": 1000}) as memory:
        chat = memory.conversation("monday")
        chat.add("user", "My account number is 4411-223 and the invoice of May is missing.", name="Dana")
        chat.add("assistant", [{"type": "tool_use", "id": "use_1", "name": "find_invoice", "input": {"month": "Mai – ü"}}])
        chat.add("user", [{"type": "tool_result", "tool_use_id": "use_1", "content": "invoice 88, paid"}])
        for session in ("tuesday", "friday"):  # learned twice: two supports
            memory.ingest([{"role": "user", "content": f"It is {session}. I live in Porto and I prefer tea."}], session=session)
        memory.remember("Dana lives in Lisbon.", key="dana.home", occurred_at=EARLY, metadata={"n": [1, {"a": None}], "x": 0.1})
        memory.remember("Dana lives in Porto.", key="dana.home", occurred_at=LATE, importance=0.123456789)
        memory.remember("Dana lives on the moon.", key="dana.home", source="web:example.org")  # into quarantine
        memory.remember(long_text("zebra", "yacht", "xenon"), kind="note")  # three passages
        memory.remember("user seems happy")
        memory.remember("the user is happy today")  # merged
        gone = memory.remember("To be forgotten").id
        memory.forget(gone)
        changed = memory.remember("Zoë lives in Kraków — 日本語 🎉").id
        memory.update(str(changed), "Zoë lives in Warszawa — 日本語 🎉", metadata={"日": "本"})
        repeated = memory.remember("Said once", idempotency_key="once")
        memory.set("theme", {"dark": True})
        memory.recall("Where does Dana live?")
        memory.recall("tea")
    for scope in (OTHER, FAR):
        with remembering(target, scope) as memory:
            memory.ingest([{"role": "user", "content": "My name is Zoë and I drink maté."}], session="s")
            memory.remember(f"A note of {scope.user}", kind="note")
    with remembering(target, DANA, embedder="none") as memory:
        memory.remember("Nobody has embedded this yet")
    return _beneath(target, str(repeated.id))


def _beneath(target: str | Path, repeated: str) -> Rich:
    """What is easier to make without the facade."""
    store = opened(target)
    archived = tuple(str(add(store, f"Put aside {n}", DANA, vector=None).id) for n in range(3))
    _, ticket = store.retention.archive(DANA, archived)
    for scope, session in ((DANA, "failing"), (DANA, "waiting"), (OTHER, "theirs")):
        said = [Write(draft(f"{session} {n}", kind="message", session=session, vector=None)) for n in range(2)]
        store.write(scope, said, JobDraft("learn", session, EARLY))
        if session == "failing":
            job = store.jobs.claim(["learn"], timedelta(hours=1), scope=scope)
            assert job is not None
            store.jobs.give_up(job, "the model answered nonsense: ü")
    store.states.put(DANA, "summary: ü", '{"text": "…"}', session="monday")
    store.states.put(OTHER, "in hand", "the plan")
    store.write(DANA, [Write(draft("Limited", vector=None), limits=(Limit("all writes", 3.0, 0.5),))])
    store.prepare_embedder(*WIDE)
    coming: list[Pending] = list(store.pending(6, next=True))
    assert store.attach([(each, vector(each.content, WIDE[1])) for each in coming], next=True) == 6
    store.close()
    return Rich(ticket, archived, repeated)


def seen(target: str | Path, folder: Path) -> dict[str, Any]:
    """All that can be seen of a store, the bytes of its exports among it."""
    store = opened(target)
    scopes = list(store.retention.scopes())
    found: dict[str, Any] = {
        "id": store.id, "scopes": scopes, "embedder": store.embedder(), "next": store.next_embedder(),
        "pending": list(store.pending(999)), "coming": list(store.pending(999, next=True)), "jobs": list(store.jobs.list()),
        "heads": {tenant: store.audit_log.verify(tenant) for tenant in sorted({"", *(scope.tenant for scope in scopes)})},
    }  # fmt: skip
    for scope in scopes:
        export_records = list(store.export_records(scope))
        found[f"{scope}"] = {
            "archives": export_records, "audit": list(store.audit(scope, limit=9999)), "states": list(store.states.all(scope)),
            "history": [store.history(scope, each.record.id) for each in export_records],
            "aside": list(store.retention.archived(scope)),
            "reviews": [list(store.reviews.list(scope, state=state)) for state in ("open", "kept", "retired")],
            "order": [store.sequence_of(scope, each.record.id) for each in export_records],
            "turns": list(store.message_log.page(scope, None)),
        }  # fmt: skip
    store.close()
    for scope in scopes:
        with remembering(target, scope, embedder="none") as memory:
            memory.export(folder / "export.jsonl")
        found[f"export {scope}"] = (folder / "export.jsonl").read_bytes()
    return found


def recalled(target: str | Path) -> list[Any]:
    """What questions are answered with: ids in their order, now and as of an earlier time."""
    found = []
    for scope in (DANA, OTHER):
        with remembering(target, scope) as memory:
            for question in QUESTIONS:
                found.append([hit.id for hit in memory.recall(question, limit=10)])
                found.append([hit.content for hit in memory.recall(question, limit=10, as_of=BETWEEN)])
    return found


def healthy(target: str | Path) -> None:
    """The doctor finds nothing, and every trail is whole."""
    with Memory.open(target, embedder="none") as memory:
        assert memory.upkeep.doctor().findings == ()
    store = opened(target)
    for tenant in {"", *(scope.tenant for scope in store.retention.scopes())}:
        assert store.audit_log.verify(tenant).whole
    store.close()


def goes_on(target: str | Path, rich: Rich) -> None:
    """The moved store is in use again: nothing that hung in the air was lost, and numbers go on."""
    store = opened(target)
    last = max(row.number for scope in store.retention.scopes() for row in store.audit(scope, limit=9999))
    assert sorted(store.retention.undo(DANA, rich.ticket)) == sorted(rich.archived)
    claims = [store.jobs.claim(["learn"], timedelta(hours=1)) for _ in range(3)]
    assert sorted(job.session or "" for job in claims if job is not None) == ["theirs", "waiting"]
    store.forget(ERIK, Selector(everything=True))
    store.close()
    with remembering(target, DANA) as memory:
        again = memory.remember("Said once", idempotency_key="once")
        assert again.id == rich.repeated
        assert memory.remember("Written after the move").action == "added"
        assert memory.recall("What was written after the move?")[0].content == "Written after the move"
        numbers = [row.number for row in memory.audit(limit=9999)]  # within the scope
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
    store = opened(target)
    assert min(row.number for row in store.audit(DANA, limit=2)) > last
    store.close()
    healthy(target)
