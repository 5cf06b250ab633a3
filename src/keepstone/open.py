"""The composition root: from a target and settings to a wired engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from keepstone.buffers.buffered import BufferedStore
from keepstone.buffers.registry import make_buffer
from keepstone.distribution import install_command
from keepstone.embedders.reader import Reader
from keepstone.embedders.registry import ENGLISH_EMBEDDER, make_embedder
from keepstone.encryption_keys import encryption_key
from keepstone.engine import Adapters, Engine, Makers
from keepstone.errors import ConfigurationError, EmbedderError, clean_with
from keepstone.guard.guard import Guard, GuardRules, redact_message
from keepstone.guard.guarded_store import GuardedStore
from keepstone.guard.policy import Detector, Policy
from keepstone.ports.caches import VectorIndex
from keepstone.ports.chat import ChatModel
from keepstone.ports.stores import Clock, Embedder, PagedStore, Reranker, Store
from keepstone.ports.values import StoreOptions
from keepstone.scope_index.segments import Segments
from keepstone.settings import HOLDS, READS, Settings, provider_variable
from keepstone.text import times
from keepstone.write.blocks import text_of
from keepstone.write.flow import SINGLE_VALUED, RateLimits, WriteRules
from keepstone.write.request import gist_of

if TYPE_CHECKING:
    from keepstone.vector_sync.indexing import Indexing


def open_engine(
    target: str | PathLike[str] | Store,
    *,
    embedder: Any = "auto",
    model: Any = None,
    buffer: Any = None,
    index: Any = None,
    settings: Settings | Mapping[str, Any] | None = None,
    reranker: Reranker | None = None,
    reembed: bool = False,
    clock: Clock = times.now,
) -> Engine:
    """Open the store a target names and wire everything to it."""
    clean_with(redact_message)
    if reranker is not None and not callable(reranker):
        raise ConfigurationError(f"reranker is {reranker!r:.60}: use a function from (query, texts) to scores from 0 to 1.")
    loaded = Settings.load(settings)
    if loaded.reader not in READS:
        raise ConfigurationError(f"the setting reader is {loaded.reader!r:.40}: use {', '.join(READS)}.")
    if loaded.hold not in HOLDS:
        raise ConfigurationError(f"the setting hold is {loaded.hold!r:.40}: use {', '.join(HOLDS)}.")
    own = None if isinstance(target, (str, PathLike)) else check_store(target)
    path = ":memory:" if own is not None else path_of(cast(Any, target))
    makers = Makers(partial(make_embedder, environment=provider_variable), lambda spec: make_chat_model(spec, loaded))
    text_embedder = makers.embedder(embedder)
    chat_model = makers.model(model)
    rules = _guard_rules(loaded)
    buffer = loaded.buffer or None if buffer is None else buffer
    message_buffer = make_buffer(buffer, bound=loaded.buffer_messages, ttl=loaded.buffer_seconds)
    vector_index = _make_index(loaded.index or None if index is None else index)
    options = StoreOptions(
        loaded.durable,
        loaded.busy_timeout,
        loaded.statement_timeout,
        encryption_key(loaded),
        loaded.read_url,
        loaded.read_staleness,
    )
    if options.encryption_key is not None and own is None and "://" in path:
        raise ConfigurationError("an encryption key is for a file: encrypt the disk of a database server, and unset the key.")
    raw = own or open_store(path, options, clock)
    guard = Guard(rules, gist_of, text_of, clock, raw.id)
    indexing = _make_indexing(raw, vector_index)
    inner = raw if indexing is None else indexing.store
    store = GuardedStore(BufferedStore(inner, message_buffer, clock), guard)
    try:
        if embedder == "auto" and not reembed and (store.embedder() or ("",))[0] == ENGLISH_EMBEDDER:
            text_embedder = makers.embedder(ENGLISH_EMBEDDER)  # a store of an earlier release keeps the model it was filled with
        moving = reembed and text_embedder is not None and _has_other_vectors(store, text_embedder)
        if text_embedder is not None and not moving:
            bind(store, text_embedder)
    except BaseException:
        store.close()
        raise
    adapters = Adapters(
        target=path if own is None and "://" not in path else str(getattr(raw, "label", type(raw).__name__)),
        store=store,
        embedder=text_embedder,
        model=chat_model,
        buffer=message_buffer,
        indexing=indexing,
        segments=_make_segments(raw, path, 0 if indexing is not None else loaded.approximate_from, loaded.encrypted),
        reranker=reranker,
        reader=None if loaded.reader == "off" else Reader(),
        clock=clock,
        makers=makers,
        read_notes=getattr(raw, "read_notes", tuple),
    )
    engine = Engine(adapters, loaded, guard, _write_rules(loaded))
    if moving and text_embedder is not None:
        try:
            _reembed(engine, text_embedder)
        except BaseException:
            engine.close()
            raise
    return engine


def _make_segments(store: Store, path: str, least: int, encrypted: bool) -> Segments | None:
    """The index segments of a file's large scopes, in a folder next to it. Even a process that builds none (`least` is 0) has to
    overwrite in them what is forgotten. Those of an encrypted file are kept in memory."""
    if not store.is_embedded or not hasattr(store, "index_page"):
        return None
    folder = None if path == ":memory:" or encrypted else Path(f"{Path(path).absolute()}-index")
    return Segments(cast(PagedStore, store), least, folder)


def safe_message(text: str) -> str:
    """A message as a surface may show it: without sensitive values that a user has typed."""
    return redact_message(text)


def _guard_rules(settings: Settings) -> GuardRules:
    return GuardRules(
        Policy.of(settings.sensitive),
        _detectors(settings.detectors),
        settings.quarantine,
        timedelta(days=settings.unconfirmed_days),
        settings.hold,
    )


def _detectors(names: str) -> tuple[Detector, ...]:
    if not names:
        return ()
    from keepstone.guard.extras import load_detectors  # with packages of their own

    return load_detectors(names)


def _write_rules(settings: Settings) -> WriteRules:
    by_source = {"agent:tool": settings.tool_writes_per_minute, **settings.source_writes_per_minute}
    single = {tag.strip() for tag in settings.single_valued.split(",") if tag.strip()}
    limits = RateLimits(settings.writes_per_minute, by_source, settings.write_interval)
    return WriteRules(limits, SINGLE_VALUED | single, timedelta(days=settings.ttl_days))


def path_of(target: str | PathLike[str]) -> str:
    """A target as text; ConfigurationError where it cannot be one."""
    try:
        path: Any = os.fspath(target)
    except TypeError:
        raise ConfigurationError(f"target must be a path or a URL, got {type(target).__name__}.") from None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ConfigurationError(f"target {path!r:.80} is not a path: use a file name such as 'keepstone.db'.")
    return path


def make_chat_model(spec: Any, settings: Settings | None = None) -> ChatModel | None:
    """The model that a name, a function or a ChatModel stands for; without `settings`, with the default ones."""
    if spec is None:
        return None
    settings = settings or Settings.load(None)
    from keepstone.models.registry import make_model  # with asyncio: only who has a model pays for it

    return make_model(spec, timeout=settings.model_timeout, retries=settings.model_retries)


def check_store(target: Any) -> Store:
    """A caller's own store; ConfigurationError names what it lacks."""
    wanted = {name for name in dir(Store) if not name.startswith("_")} | set(Store.__annotations__)
    missing = sorted(name for name in wanted if not hasattr(target, name))
    if isinstance(target, type) or len(missing) == len(wanted):
        raise ConfigurationError(f"target must be a path, a URL or an open store, got {target!r:.60}.")
    if missing:
        raise ConfigurationError(
            f"the store {type(target).__name__} lacks {', '.join(missing[:8])}: implement keepstone.ports.stores.Store, or "
            "derive it from keepstone.stores.blobs.BlobStore; keepstone.testing.StoreContract checks it."
        )
    return cast(Store, target)


def open_store(path: str, options: StoreOptions, clock: Clock) -> Store:
    """The store that a path or a URL names."""
    scheme, separator, _ = path.partition("://")
    if scheme in ("postgresql", "postgres") and separator:
        return _postgres(path, options, clock)
    if separator:
        raise ConfigurationError(
            f"there is no store for {scheme}://: use a file path, ':memory:' or postgresql://user@host/name."
        )
    from keepstone.stores.sqlite.store import SqliteStore

    return SqliteStore.open(path, options, clock=clock)


def _postgres(url: str, options: StoreOptions, clock: Clock) -> Store:
    try:
        from keepstone.stores.postgres.store import PostgresStore
    except ImportError as error:
        raise ConfigurationError(
            f"a postgresql:// store needs psycopg ({error}): install it with {install_command('postgres')}."
        ) from None
    return PostgresStore.open(url, options, clock=clock)


def _make_index(spec: Any) -> VectorIndex | None:
    if spec is None:
        return None
    from keepstone.vector_indexes.registry import make_index

    return make_index(spec, environment=provider_variable)


def _make_indexing(store: Store, index: VectorIndex | None) -> Indexing | None:
    if index is None:
        return None
    from keepstone.vector_sync.indexing import Indexing

    return Indexing(store, index)


def _has_other_vectors(store: Store, embedder: Embedder) -> bool:
    return store.embedder() not in (None, (embedder.id, embedder.dimension))


def _reembed(engine: Engine, embedder: Embedder) -> None:
    """Move a store that has vectors of another embedder to this one."""
    present = engine.store.embedder()
    report = engine.upkeep_jobs.reembedder.run(embedder, None)
    if present is not None and not report.moved:
        raise EmbedderError(
            f"the store could not be moved from {present[0]!r} to {embedder.id!r}, and keeps its vectors ({report.problem}): "
            "open it with the embedder it has, or try again."
        )


def bind(store: Store, embedder: Embedder) -> None:
    """Tie a store to its embedder. One that is not local is not asked for its dimension, which might cost a call."""
    present = store.embedder()
    if embedder.local:
        store.bind_embedder(embedder.id, embedder.dimension)
    elif present is not None:
        store.bind_embedder(embedder.id, present[1])
