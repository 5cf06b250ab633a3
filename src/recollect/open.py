"""The composition root: from a target and settings to a wired engine. Imports: everything; imported by: memory, surfaces."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from os import PathLike
from typing import Any, cast

from recollect import times
from recollect.chat import ChatModel
from recollect.embedders.registry import make_embedder
from recollect.engine import Engine, Makers
from recollect.errors import ConfigurationError, clean_with
from recollect.guard.clearing import Guard, GuardRules, safe
from recollect.guard.kinds import Detector
from recollect.guard.policy import Policy
from recollect.guard.store import GuardedStore
from recollect.ports import Clock, Embedder, Reranker, Store, StoreOptions
from recollect.settings import Settings, provider_variable
from recollect.write.blocks import text_of
from recollect.write.flow import SINGLE_VALUED, WriteRules
from recollect.write.limits import RateLimits
from recollect.write.request import gist_of


def open_engine(
    target: str | PathLike[str],
    *,
    embedder: Any = "auto",
    model: Any = None,
    buffer: Any = None,
    index: Any = None,
    settings: Settings | Mapping[str, Any] | None = None,
    reranker: Reranker | None = None,
    clock: Clock = times.now,
) -> Engine:
    """Open the store a target names and wire everything to it."""
    clean_with(safe)
    for name, value in (("buffer", buffer), ("index", index)):
        if value is not None:
            raise ConfigurationError(f"{name}={value!r:.60}: this version of recollect has no {name} yet; leave it out.")
    if reranker is not None and not callable(reranker):
        raise ConfigurationError(f"reranker is {reranker!r:.60}: use a function from (query, texts) to scores from 0 to 1.")
    chosen = Settings.load(settings)
    path = _path(target)
    makers = Makers(partial(make_embedder, environment=provider_variable), lambda spec: _model(spec, chosen))
    made = makers.embedder(embedder)
    chat_model = makers.model(model)
    rules = _guard_rules(chosen)
    raw = _store(path, StoreOptions(durable=chosen.durable, busy_timeout=chosen.busy_timeout), clock)
    guard = Guard(rules, gist_of, text_of, clock, raw.id)
    store = cast(Store, GuardedStore(raw, guard))
    try:
        if made is not None:
            bind(store, made)
    except BaseException:
        store.close()
        raise
    return Engine(path, store, made, chosen, clock, makers, guard, _write_rules(chosen), reranker, chat_model)


def safe_message(text: str) -> str:
    """A message as a surface may show it: without sensitive values that somebody has typed."""
    return safe(text)


def _guard_rules(settings: Settings) -> GuardRules:
    days = settings.unconfirmed_days
    return GuardRules(
        Policy.of(settings.sensitive),
        _detectors(settings.detectors) if settings.detectors else (),
        settings.quarantine,
        timedelta(days=days) if days else None,
    )


def _detectors(names: str) -> tuple[Detector, ...]:
    from recollect.guard.extras import detectors_of  # with packages of their own

    return detectors_of(names)


def _write_rules(settings: Settings) -> WriteRules:
    by_source = {"agent:tool": settings.tool_writes_per_minute, **settings.source_writes_per_minute}
    single = {tag.strip() for tag in settings.single_valued.split(",") if tag.strip()}
    limits = RateLimits(settings.writes_per_minute, by_source, settings.write_interval)
    return WriteRules(limits, SINGLE_VALUED | single)


def _path(target: str | PathLike[str]) -> str:
    try:
        path: Any = os.fspath(target)
    except TypeError:
        raise ConfigurationError(f"target must be a path or a URL, got {type(target).__name__}.") from None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError(f"target {path!r:.80} is not a path: use a file name such as 'recollect.db'.")
    return path


def _model(spec: Any, settings: Settings) -> ChatModel | None:
    if spec is None:
        return None
    from recollect.models.registry import make_model  # with asyncio: only who has a model pays for it

    return make_model(spec, timeout=settings.model_timeout, retries=settings.model_retries)


def _store(path: str, options: StoreOptions, clock: Clock) -> Store:
    scheme, separator, _ = path.partition("://")
    if separator:
        raise ConfigurationError(f"there is no store for {scheme}:// in this version: use a file path or ':memory:'.")
    from recollect.stores.sqlite.store import SqliteStore

    return SqliteStore.open(path, options, clock=clock)


def bind(store: Store, embedder: Embedder) -> None:
    """Tie a store to its embedder. One that is not local is not asked for its dimension, which might cost a call."""
    present = store.embedder()
    if embedder.local:
        store.bind_embedder(embedder.id, embedder.dimension)
    elif present is not None:
        store.bind_embedder(embedder.id, present[1])
