"""What hooks do: give a session what is known when it starts and what answers a prompt, and store what was said.

A project has a scope of its own; the user's personal scope is read as well. What is injected is fenced as in every prompt.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any

from keepstone.cli.coding_agents import create_folder
from keepstone.cli.coding_agents.connect import get_client
from keepstone.errors import RateLimited
from keepstone.importing.project import project_agent
from keepstone.importing.transcripts import Said, read_transcript
from keepstone.importing.writer import origin_id
from keepstone.memory import Memory
from keepstone.recall.render import CLOSE, OPEN, escape_text, is_filler, render_line
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE, Receipt, Record

START_TOKENS, PROMPT_TOKENS = 1200, 500  # budgets of what is injected
_CHARS_PER_TOKEN = 4
_MAX_HITS = 5
_MIN_SHARE = 0.5  # of the best score, below which a memory is not injected
_MAX_LISTED = 50  # facts of a scope that are considered for the start of a session
_MAX_THREADS = 3  # earlier sessions that the start of a session names
_MAX_THREAD_CHARS = 200
_BATCH_MESSAGES = 100
_FACT_KINDS = ("value", "fact", "note")
_PROFILE_TAGS = ("profile", "preference", "preferences")


class HookHandler:
    """Answers the hooks of coding agents from one memory. `folder` keeps how far each transcript was read."""

    def __init__(self, memory: Memory, folder: Path) -> None:
        self._memory = memory
        self._folder = folder
        self._shown: dict[str, set[str]] = {}  # ids that a session was given already
        self._blocks: dict[str, list[tuple[str, Record]]] = {}  # what a session was given at its start

    def answer(self, event: str, client: str, project: str, payload: Mapping[str, Any], folder: str) -> str:
        """What the client reads on standard output; "" for nothing."""
        session = _first_text(payload, "session_id", "conversation_id") or "unknown"
        roots = payload.get("workspace_roots")
        folder = _first_text(payload, "cwd") or (str(roots[0]) if isinstance(roots, list) and roots else folder)
        agent = project_agent(project, folder)
        memory = self._memory if agent is None else self._memory.with_scope(agent=agent)
        if event in ("session-start", "prompt"):
            start = event == "session-start"
            text = self._start(memory, agent, payload, session) if start else self._prompt(memory, payload, session)
            if text:
                memory.add_cost(session, injected=estimate_tokens(text))
            return _as_answer(client, payload, text)
        if event == "session-end":
            self._shown.pop(session, None)
            self._blocks.pop(session, None)
        self._capture(memory, client, session, payload)
        return ""

    # -- injecting --------------------------------------------------------------------------------------------------
    def _start(self, memory: Memory, agent: str | None, payload: Mapping[str, Any], session: str) -> str:
        """Who the user is, what is known of the project, and what earlier sessions ended with."""
        if payload.get("source") == "resume":  # the conversation holds it already
            return ""
        headings = {"About the user:": _list_facts(self._memory)}
        if agent is not None:
            headings[f"About {escape_text(agent)}:"] = _list_facts(memory)
        headings["Earlier sessions ended with:"] = _open_threads(memory, session)
        kept = self._read_block(memory, session) if payload.get("source") == "compact" else []
        shown = self._shown[session] = {record.id for _, record in kept}  # a cleared session has lost what it was given
        chars = START_TOKENS * _CHARS_PER_TOKEN - sum(len(render_line(record)) + 1 for _, record in kept)
        block = list(kept)
        for heading, records in headings.items():
            half = chars // 2 if agent is not None and "Earlier" not in heading else chars
            fitting = _take((record for record in records if record.id not in shown), half)
            shown.update(record.id for record in fitting if not record.content.endswith("…"))
            chars -= sum(len(render_line(record)) + 1 for record in fitting)
            block += [("Since then:" if kept else heading, record) for record in fitting]
        self._blocks[session] = block
        groups = groupby(block, itemgetter(0))
        lines = [line for heading, group in groups for line in (heading, *(render_line(record) for _, record in group))]
        return "\n".join([OPEN, *lines, CLOSE]) if lines else ""

    def _read_block(self, memory: Memory, session: str) -> list[tuple[str, Record]]:
        """What a session was given at its start, in that order, as far as it still holds: so a prompt's prefix stays the same."""
        block = self._blocks.get(session, [])
        there = [(self._memory if record.scope == self._memory.scope else memory).get(record.id) for _, record in block]
        return [each for each, now in zip(block, there, strict=True) if now is not None and now.version == each[1].version]

    def _prompt(self, memory: Memory, payload: Mapping[str, Any], session: str) -> str:
        """What answers the prompt and was neither said nor shown in this session; "" if nothing does."""
        prompt = _first_text(payload, "prompt") or ""
        if not prompt.strip() or prompt.lstrip().startswith("/"):
            return ""
        shown = self._shown.setdefault(session, set())
        hits = memory.recall(prompt[:4000], limit=_MAX_HITS * 2, also=[self._memory.scope])
        least = _MIN_SHARE * max((hit.score for hit in hits), default=0.0)  # what was shown already may be the answer
        new = [hit for hit in hits if hit.record.session != session and hit.record.id not in shown and not is_filler(hit.record)]
        new.sort(key=lambda hit: -hit.score)
        close = [hit.record for hit in new if hit.score >= least]
        chosen = _take(_drop_sources(close)[:_MAX_HITS], PROMPT_TOKENS * _CHARS_PER_TOKEN)
        shown.update(record.id for record in chosen)
        return "\n".join([OPEN, *map(render_line, chosen), CLOSE]) if chosen else ""

    # -- capturing --------------------------------------------------------------------------------------------------
    def _capture(self, memory: Memory, client: str, session: str, payload: Mapping[str, Any]) -> None:
        """Store what the transcript holds beyond the position of the last time."""
        path = _first_text(payload, "transcript_path")
        if path is None or not os.path.isfile(path):
            return
        mark = self._folder / f"{hashlib.sha256(f'{client} {session} {path}'.encode()).hexdigest()[:32]}.json"
        start = _read_mark(mark)
        conversation = memory.conversation(session)
        there = conversation.last(2 * _BATCH_MESSAGES) if start else conversation  # an import may have stored the session before
        known = {origin_id(message.metadata, client) for message in there}
        batch: list[Said] = []
        for said in read_transcript(path, start):
            batch.append(said)
            if len(batch) == _BATCH_MESSAGES:
                self._store(memory, client, session, batch, known, mark)
                batch = []
        if batch:
            self._store(memory, client, session, batch, known, mark)

    def _store(self, memory: Memory, client: str, session: str, batch: Sequence[Said], known: set[Any], mark: Path) -> None:
        """Store a batch, then how far it goes: after a kill in between, its messages are known by their ids. What a rate limit
        refuses is left for the next time. Raises RateLimited."""
        first = {said.id: said for said in reversed(batch)}  # Gemini CLI writes an entry again when it has changed
        new = [said for said in batch if said.id not in known and first[said.id] is said]
        messages = [replace(said.message, metadata={"client": client, "transcript_id": said.id}) for said in new]
        receipts = memory.ingest(messages, session=session) if messages else []
        late = next((said.id for said, receipt in zip(new, receipts, strict=True) if _is_limited(receipt)), None)
        taken = list(takewhile(lambda said: said.id != late, batch))
        known.update(said.id for said in taken)
        if taken:
            create_folder(self._folder)
            temporary = mark.with_suffix(".new")
            temporary.write_text(json.dumps({"next": taken[-1].next}), encoding="ascii")
            os.replace(temporary, mark)
        if late is not None:
            raise RateLimited(f"{len(batch) - len(taken)} messages wait for the next hook: {'; '.join(receipts[-1].reasons)}")


def _is_limited(receipt: Receipt) -> bool:
    return receipt.action == "refused" and any("try again in" in reason for reason in receipt.reasons)


def _read_mark(mark: Path) -> int:
    try:
        return int(json.loads(mark.read_text(encoding="ascii"))["next"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _first_text(payload: Mapping[str, Any], *names: str) -> str | None:
    return next((payload[name] for name in names if isinstance(payload.get(name), str) and payload[name]), None)


def _as_answer(client: str, payload: Mapping[str, Any], text: str) -> str:
    """The text in the client's own format."""
    if not text:
        return ""
    event = payload.get("hook_event_name", "")
    if get_client(client)["hooks"]["answer"] == "additional_context":
        more = {"continue": True} if event == "beforeSubmitPrompt" else {}
        return json.dumps({**more, "additional_context": text})
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


def _list_facts(memory: Memory) -> list[Record]:
    """Facts and values of a scope: preferences first, then by importance, then the newest."""
    narrowed: list[dict[str, Any]] = [*({"tag": tag} for tag in _PROFILE_TAGS), *({"kind": kind} for kind in _FACT_KINDS)]
    records = {record.id: record for each in narrowed for record in memory.list(**each, limit=_MAX_LISTED)}
    active = [record for record in records.values() if record.status == "active" and record.kind in _FACT_KINDS]
    active.sort(
        key=lambda record: (record.tag not in _PROFILE_TAGS, -record.importance, -record.updated_at.timestamp(), record.id)
    )
    return active


def _drop_sources(records: Iterable[Record]) -> list[Record]:
    """The records without the messages that a fact before them was learned from."""
    kept: list[Record] = []
    sources: set[str] = set()
    for record in records:
        if record.id not in sources:
            kept.append(record)
            sources.update(record.parents)
    return kept


def _open_threads(memory: Memory, session: str) -> list[Record]:
    """The last thing that the user said in each of the latest sessions, shortened."""
    last: dict[str, Record] = {}
    for record in memory.list(kind=MESSAGE, limit=100):
        if record.role == "user" and record.session not in (None, session) and record.status == "active":
            last.setdefault(str(record.session), record)
        if len(last) == _MAX_THREADS:
            break
    return [replace(record, content=_shorten(record.content)) for record in last.values()]


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_THREAD_CHARS else f"{text[: _MAX_THREAD_CHARS - 1]}…"


def _take(records: Iterable[Record], chars: int) -> list[Record]:
    """The first records whose lines fit."""
    taken: list[Record] = []
    for record in records:
        chars -= len(render_line(record)) + 1
        if chars < 0:
            break
        taken.append(record)
    return taken
