"""Settings: what a store is opened with besides its target.

Read at the composition root only, in this order: the `settings` argument, the environment (KEEPSTONE_*), ./keepstone.toml, the
user's own file (the one that KEEPSTONE_SETTINGS names, else ~/.config/keepstone/settings.toml), the defaults below. The current
folder may be another person's project, so of ./keepstone.toml only the settings in PROJECT_SETTINGS count: none of them weakens
protection or names an address.
"""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from keepstone.errors import ConfigurationError

PREFIX = "KEEPSTONE_"
READS = ("auto", "always", "off")  # the values of the setting reader
HOLDS = ("none", "agents", "all")  # the values of the setting hold
_NOTHING: Mapping[str, Any] = {}
PROJECT_FILE = "keepstone.toml"
PROJECT_SETTINGS = frozenset(
    "approximate_from buffer_messages buffer_seconds busy_timeout cache_mb extract extract_after min_confidence min_similarity "
    "model_retries model_timeout single_valued statement_timeout".split()
)
_log = logging.getLogger("keepstone")
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _setting(default: Any, text: str, least: float | None = None, most: float | None = None, *, shown: bool = True) -> Any:
    metadata = {"text": text, "least": least, "most": most}
    if default is _NOTHING:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata, repr=shown)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default; the table in the documentation is made from this class."""

    durable: bool = _setting(True, "each commit waits until the disk has it; false: a power cut may lose the last writes")
    busy_timeout: float = _setting(30.0, "seconds to wait for another process's write", 5.0, 3600.0)
    statement_timeout: float = _setting(60.0, "PostgreSQL: seconds that one statement may take", 1.0, 86400.0)
    encryption_key: str = _setting(
        "", "the key that encrypts a file, a passphrase or 64 hexadecimal digits; needs keepstone[encrypted]", shown=False
    )
    encryption_key_file: str = _setting("", "a file that holds the encryption key")
    encryption_key_command: str = _setting("", "a command that prints the encryption key: pass show keepstone")
    encryption_key_keyring: str = _setting("", "the entry of the system's keyring that holds the encryption key: SERVICE/NAME")
    read_url: str = _setting("", "PostgreSQL: the standby that recall reads from: postgresql://user@replica/name", shown=False)
    read_staleness: float = _setting(
        5.0, "PostgreSQL: maximum seconds that the standby may be behind; beyond that, recall reads from the primary", 0.1, 3600.0
    )
    buffer: str = _setting("", "the buffer of the newest messages: redis://host:6379/0; unset: in this process")
    buffer_messages: int = _setting(200, "maximum messages of a session in the buffer", 1, 10_000)
    buffer_seconds: float = _setting(3600.0, "maximum seconds that a message stays in the buffer", 1.0, 86400.0)
    index: str = _setting("", "an external vector index: chroma:/folder, chroma:http://…, qdrant:…, pinecone:NAME")
    cache_mb: int = _setting(512, "memory for the indexes of scopes in use, in megabytes", 1, 1_000_000)
    approximate_from: int = _setting(
        50_000,
        "number of memories from which a scope of a file has an index in the folder FILE-index; 0: never",
        0,
        10**9,
    )
    min_similarity: float | None = _setting(None, "minimum relevance of a recalled memory; unset: better than chance", 0, 1)
    min_confidence: float | None = _setting(
        None,
        "minimum probability that a memory answers; below it nothing is recalled; unset: 0.1, with the reader 0.2",
        0.0,
        1.0,
    )
    reader: str = _setting(
        "auto",
        "where the reader judges the best hits: auto (context, tools and agents), always (recall and hooks too), off",
    )

    min_trust: float = _setting(0.0, "minimum trust of a recalled memory, unless a recall says otherwise", 0.0, 1.0)

    extract: bool = _setting(True, "facts are extracted from what users say: by the model, or by rules if there is none")
    extract_after: float = _setting(5.0, "seconds that messages are collected before a model is asked for facts", 0.0, 86400.0)
    worker: bool = _setting(
        True, "with a model: a thread of this process runs the queued jobs; false: only 'keepstone upkeep run' does"
    )
    tool_writes_per_minute: int = _setting(10, "maximum writes of the memory tools in a minute, in one scope", 1, 100_000)
    writes_per_minute: int = _setting(0, "maximum writes of a scope in a minute, messages included; 0: no maximum", 0, 10_000_000)
    source_writes_per_minute: Mapping[str, int] = _setting(
        _NOTHING, "the same for a source or channel: web=60,tool=120", 0, 10_000_000
    )
    write_interval: float = _setting(0.0, "minimum seconds between two writes of a scope", 0.0, 86400.0)
    sensitive: Mapping[str, str] = _setting(
        _NOTHING, "what happens to each kind of sensitive data: card=refuse,email=redact (redact, tag, refuse, allow)"
    )
    ttl_days: float = _setting(
        0.0,
        "default time to live of a memory in days; messages and values under keys stay; 0: none",
        0.0,
        36500.0,
    )
    detectors: str = _setting("", "further detectors of sensitive data: phonenumbers, phonenumbers:DE, presidio")
    quarantine: bool = _setting(
        True, "text from outside that reads like instructions to a model is not recalled until it was reviewed"
    )
    hold: str = _setting(
        "none",
        "what is not recalled until a person approves it: none, agents (what agents, tools and web pages write), "
        "all (except messages)",
    )
    unconfirmed_days: float = _setting(
        30.0, "days after which unconfirmed memories of untrusted sources expire; 0: never", 0.0, 36500.0
    )
    single_valued: str = _setting("", "further tags that have one value at a time for each subject: team,manager")
    model_timeout: float = _setting(60.0, "maximum seconds without data from a model", 0.1, 3600.0)
    request_bytes: int = _setting(
        9_961_472, "server: maximum bytes of a body with texts to remember; other bodies: 1 MB", 1024, 1_073_741_824
    )
    import_bytes: int = _setting(268_435_456, "server: maximum bytes of an import", 1024, 1_099_511_627_776)
    request_seconds: float = _setting(20.0, "server: maximum seconds until the body of a request has arrived", 0.1, 3600.0)
    requests_per_minute: int = _setting(
        6000, "server: maximum requests of a key in a minute, unless it has its own rate; 0: no maximum", 0, 10_000_000
    )
    request_embedders: str = _setting(
        "", "server: embedders besides the built-in ones that a request may name: openai:text-embedding-3-small,minilm"
    )
    public_url: str = _setting("", "server: its public address, such as that of a proxy: https://memory.example.org")
    token_issuer: str = _setting(
        "", "server: the issuer of tokens that are accepted in addition to keys: https://login.example.org"
    )
    token_audience: str = _setting("", "server: the audience of such tokens; unset: the address of /mcp")
    token_keys: str = _setting(
        "", "server: the address of the issuer's public keys (JWKS); unset: the one that its discovery document names"
    )
    token_claims: Mapping[str, str] = _setting(
        _NOTHING, "server: the claims of a token that hold tenant, agent, user and scopes: tenant=org_id,user=sub"
    )
    upkeep_hours: float = _setting(0.0, "server: hours between two runs of the default maintenance policy; 0: never", 0.0, 8760.0)
    mcp_forget: bool = _setting(False, "the MCP server offers forget_memory too, to keys that may forget")
    telemetry: bool = _setting(False, "server: OpenTelemetry spans, by the GenAI memory conventions; needs keepstone[otel]")
    model_retries: int = _setting(2, "retries if the model's service fails or is busy", 0, 20)

    @property
    def encrypted(self) -> bool:
        """Whether a key is named that encrypts the store."""
        named = (self.encryption_key, self.encryption_key_file, self.encryption_key_command, self.encryption_key_keyring)
        return any(named)

    @classmethod
    def load(cls, given: Settings | Mapping[str, Any] | None = None) -> Settings:
        """The settings in force; ConfigurationError names the one that cannot be used and where it came from."""
        if isinstance(given, Settings):
            given = {setting.name: getattr(given, setting.name) for setting in fields(given)}
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(f"settings must be a dictionary or Settings, got {type(given).__name__}.")
        values: dict[str, Any] = {}
        hints = get_type_hints(cls)
        sources = (
            ("file", _user_file()), ("project file", _project_file()[0]),
            ("environment", _environment()), ("argument", given or {}),
        )  # fmt: skip
        for origin, source in sources:
            for name, value in source.items():
                if name not in hints:
                    raise ConfigurationError(f"there is no setting {name!r} (from the {origin}): use {', '.join(sorted(hints))}.")
                values[name] = _convert(name, value, hints[name], origin)
        return cls(**values)


def setting_origins(settings: Settings) -> dict[str, str]:
    """Where each of these settings comes from: default, file, project file, environment, or argument."""
    loaded = Settings.load()
    origins = dict.fromkeys((setting.name for setting in fields(Settings)), "default")
    for origin, source in (("file", _user_file()), ("project file", _project_file(False)[0]), ("environment", _environment())):
        origins.update(dict.fromkeys(source, origin))
    changed = [name for name in origins if getattr(settings, name) != getattr(loaded, name)]
    return {**origins, **dict.fromkeys(changed, "argument")}


def provider_variable(name: str) -> str | None:
    """What the environment has under a provider's own name (VOYAGE_API_KEY, OPENAI_BASE_URL); None where that is nothing."""
    return os.environ.get(name, "").strip() or None


def ignored_settings() -> tuple[str, ...]:
    """The settings of the current folder's file that do not count."""
    return _project_file(warn=False)[1]


def _user_file() -> Mapping[str, Any]:
    """The file that KEEPSTONE_SETTINGS names, which must be there; else the one in the user's configuration folder."""
    named = os.environ.get(PREFIX + "SETTINGS")
    if named:
        return _read(Path(named))
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(folder) / "keepstone" / "settings.toml"
    return _read(path) if path.is_file() else {}


def _project_file(warn: bool = True) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """What counts of the file in the current folder, and the names of what does not. With KEEPSTONE_SETTINGS it is not read."""
    path = Path(PROJECT_FILE)
    if os.environ.get(PREFIX + "SETTINGS") or not path.is_file():
        return {}, ()
    values = _read(path)
    known = {setting.name for setting in fields(Settings)}
    ignored = tuple(sorted(name for name in values if name in known - PROJECT_SETTINGS))
    if ignored and warn:
        _log.warning(
            "%s in this folder: ignored %s, because a project folder may not change protection or addresses. "
            "If the file is yours, set KEEPSTONE_SETTINGS=%s.", path, ", ".join(ignored), path.absolute(),
        )  # fmt: skip
    return {name: value for name, value in values.items() if name not in ignored}, ignored


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the settings file {path} cannot be read ({error}): correct it or remove it.") from None


def _environment() -> Mapping[str, str]:
    """KEEPSTONE_CACHE_MB=64 and so on; other KEEPSTONE_* variables belong to the command line."""
    names = {setting.name for setting in fields(Settings)}
    found = {name: os.environ.get(PREFIX + name.upper()) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _convert(name: str, value: Any, kind: Any, origin: str) -> Any:
    limits = next(setting.metadata for setting in fields(Settings) if setting.name == name)
    try:
        if kind is bool:
            word = str(value).lower()
            if word not in _TRUE + _FALSE:
                raise ValueError("use true or false")
            return word in _TRUE
        if value is None and kind == float | None:
            return None
        if kind is str:
            return _text(value)
        if get_origin(kind) is not None and kind != float | None:
            return _table(value, get_args(kind)[1], limits)
        if isinstance(value, bool) or (kind is int and float(value) != int(float(value))):
            raise ValueError("use a whole number" if kind is int else "use a number")
        number = (int if kind is int else float)(value)
        least, most = limits["least"], limits["most"]
        if not least <= number <= most:
            raise ValueError(f"use {least} to {most}")
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"setting {name} is {value!r:.40} (from the {origin}): {error}.") from None


def _text(value: Any) -> str:
    """A text, or a list of texts as one."""
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if not isinstance(value, str):
        raise ValueError("use text")
    return value


def _table(value: Any, kind: Any, limits: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table of names and values: a dictionary, or "name=value,name=value"."""
    if isinstance(value, str):
        parts = [part.partition("=") for part in value.split(",") if part.strip()]
        if any(not sign or not name.strip() or not text.strip() for name, sign, text in parts):
            raise ValueError("use name=value,name=value")
        value = {name.strip(): text.strip() for name, _, text in parts}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError("use a table of names and values")
    if kind is str:
        return {name: str(item) for name, item in value.items()}
    numbers = {name: int(item) for name, item in value.items() if not isinstance(item, bool)}
    if len(numbers) != len(value) or not all(limits["least"] <= number <= limits["most"] for number in numbers.values()):
        raise ValueError(f"use whole numbers from {limits['least']} to {limits['most']}")
    return numbers
