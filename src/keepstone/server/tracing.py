"""Tracing: OpenTelemetry spans of requests and verbs.

A request is a span "POST /v1/recall" below whatever its `traceparent` names; the verb in it is a span by the GenAI conventions
for memory: search_memory, update_memory, delete_memory. The names stand here as texts, for the constants are not released.
No span holds an address, a name or a memory; the text of a question does only where the whole process is told that content may be
captured (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true).
FastAPI has telemetry of its own, which writes down addresses with what stands in them; the application turns it off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from fastapi import Request
from starlette.types import Scope

from keepstone import __version__
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.server.metrics import METHODS, OTHER
from keepstone.settings import provider_variable
from keepstone.types import ForgetReceipt, Page, Recall, Receipt, Record

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.trace import Span, SpanKind, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:  # the setting says that it is wanted, so this is no time to go on without
    raise ConfigurationError(
        f"telemetry needs OpenTelemetry ({missing}): {install_command('otel')}, or turn the setting telemetry off."
    ) from None

SEARCH, UPDATE, DELETE = "search_memory", "update_memory", "delete_memory"
_ASKING = frozenset(("recall", "context", "why", "diff", "system_prompt"))  # they read, though they are posted
_NO_MEMORY = ("keys", "me", "store", "stats", "audit", "jobs", "tools", "upkeep", "review", "export", "import")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LONGEST = 4096  # characters of a question


@dataclass(frozen=True, slots=True)
class Begun:
    """The span of a request in hand."""

    span: Span
    token: Any


class Tracing:
    """Spans of one application. Without a provider: that of the process."""

    def __init__(self, store: str, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("keepstone", __version__, provider)
        self._from = TraceContextTextMapPropagator()  # and no baggage: nobody's notes are carried on
        self._store = store
        self._content = (provider_variable(_CAPTURE) or "").lower() in ("true", "1")
        self._verb = contexts.create_key("keepstone.verb")

    # -- requests -------------------------------------------------------------------------------------------------
    def begin(self, scope: Scope) -> Begun:
        """The span of a request; it is the current one until `end`."""
        sent = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in (b"traceparent", b"tracestate")
        }
        above = self._from.extract(sent)
        method = scope["method"] if scope["method"] in METHODS else "HTTP"
        attributes = {"http.request.method": method if method != "HTTP" else "_OTHER", "url.scheme": scope.get("scheme", "http")}
        span = self._tracer.start_span(method, above, SpanKind.SERVER, attributes)
        return Begun(span, contexts.attach(trace.set_span_in_context(span, above)))

    def end(self, begun: Begun, scope: Scope, route: str, status: int) -> None:
        """Say which route it was, and how it ended."""
        contexts.detach(begun.token)
        span = begun.span
        if span.is_recording():
            method = scope["method"] if scope["method"] in METHODS else "HTTP"
            if route != OTHER:
                span.set_attribute("http.route", route)
            span.update_name(method if route == OTHER else f"{method} {route}")
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_attribute("error.type", str(status))
                span.set_status(StatusCode.ERROR)
        span.end()

    # -- verbs ----------------------------------------------------------------------------------------------------
    async def verb(self, request: Request) -> AsyncIterator[None]:
        """A dependency of every route: the span of the verb it stands for."""
        operation = operation_of(request.scope.get("route"), request.method)
        if operation is None:
            yield
            return
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "keepstone",
            "gen_ai.memory.store.id": self._store,
        }
        if self._content and operation == SEARCH and (text := await _question(request)):
            attributes["gen_ai.memory.query.text"] = text
        with self._tracer.start_as_current_span(
            operation, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            token = contexts.attach(contexts.set_value(self._verb, span))
            try:
                yield
            except Exception as error:  # its text may quote somebody
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                contexts.detach(token)

    def saw(self, found: object) -> None:
        """Note on the verb in hand what it came to: how many records, or which one; never what is in them."""
        span = contexts.get_value(self._verb)
        if not isinstance(span, Span):
            return
        if isinstance(found, Recall):
            span.set_attribute("gen_ai.memory.record.count", len(found.hits))
        elif isinstance(found, Page):
            span.set_attribute("gen_ai.memory.record.count", len(found.records))
        elif isinstance(found, ForgetReceipt):
            span.set_attribute("gen_ai.memory.record.count", found.forgotten)
        elif isinstance(found, (Receipt, Record)) and found.id is not None:
            span.set_attribute("gen_ai.memory.record.id", found.id)
            span.set_attribute("gen_ai.memory.record.count", 1)


def operation_of(route: Any, method: str) -> str | None:
    """What a route does by the conventions; None where it is not about memories."""
    verb, path = getattr(route, "operation_id", None), getattr(route, "path_format", "")
    if verb is None or not path.startswith("/v1/") or path.split("/")[2] in _NO_MEMORY:
        return None
    if verb in _ASKING or method == "GET":
        return SEARCH
    return DELETE if method == "DELETE" or verb.startswith("forget") else UPDATE


async def _question(request: Request) -> str | None:
    """What was asked, from the body or from the address."""
    if request.method == "GET":
        return (request.query_params.get("words") or "")[:_LONGEST] or None
    body = await request.json()
    text = body.get("query") if isinstance(body, dict) else None
    return text[:_LONGEST] if isinstance(text, str) else None


def set_up() -> Any:
    """A provider of spans for a process that serves, unless it has one; what it exports to is said by the usual OTEL_* variables:
    OTLP where such an exporter is installed, else the console."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError(
            f"telemetry needs OpenTelemetry's SDK ({error}): {install_command('otel')}, or turn the setting telemetry off."
        ) from None
    held = trace.get_tracer_provider()
    if not isinstance(held, trace.ProxyTracerProvider):
        return held
    named = "service.name=" in (provider_variable("OTEL_RESOURCE_ATTRIBUTES") or "") or provider_variable("OTEL_SERVICE_NAME")
    about: dict[str, Any] = {"service.version": __version__} | ({} if named else {"service.name": "keepstone"})
    made = Provider(resource=Resource.create(about))
    for exporter in _exporters():
        made.add_span_processor(BatchSpanProcessor(exporter()))
    trace.set_tracer_provider(made)
    return made


def _exporters() -> list[Any]:
    """The exporters that OTEL_TRACES_EXPORTER names."""
    installed = {each.name: each for each in entry_points(group="opentelemetry_traces_exporter")}
    protocol = provider_variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or provider_variable("OTEL_EXPORTER_OTLP_PROTOCOL")
    otlp = {"grpc": ["otlp_proto_grpc"], "http/protobuf": ["otlp_proto_http"]}.get(
        protocol or "", ["otlp_proto_http", "otlp_proto_grpc"]
    )
    wanted = provider_variable("OTEL_TRACES_EXPORTER")
    if wanted is None:
        wanted = "otlp" if any(name in installed for name in otlp) else "console"
    chosen = []
    for name in (each.strip() for each in wanted.split(",")):
        found = next((installed[each] for each in (otlp if name == "otlp" else [name]) if each in installed), None)
        if found is None and name != "none":
            raise ConfigurationError(
                f"there is no exporter {name!r:.40} for traces (OTEL_TRACES_EXPORTER): install opentelemetry-exporter-otlp, "
                f"or use one of {', '.join(sorted(installed))}, none."
            )
        if found is not None:
            chosen.append(found.load())
    return chosen
