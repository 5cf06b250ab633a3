"""OpenTelemetry spans of requests and verbs.

A request is a span such as "POST /v1/recall" below the parent that its `traceparent` names. The verb in it is a span by the
GenAI conventions for memory: search_memory, update_memory, delete_memory (their constants are not released yet). No span holds an
address, a name or a memory. The text of a query is recorded only with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true.
The application turns FastAPI's own telemetry off, because it records addresses.
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
except ImportError as missing:
    raise ConfigurationError(
        f"telemetry needs OpenTelemetry ({missing}): {install_command('otel')}, or turn the setting telemetry off."
    ) from None

SEARCH, UPDATE, DELETE = "search_memory", "update_memory", "delete_memory"
_READING_POSTS = frozenset(("recall", "context", "why", "diff", "system_prompt"))
_UNTRACED = ("keys", "me", "store", "stats", "audit", "jobs", "tools", "upkeep", "review", "export", "import")
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_MAX_QUERY_CHARS = 4096


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """The span of a request in progress, and the token of its context."""

    span: Span
    token: Any


class Tracing:
    """The spans of one application. Without a provider, the process's is used."""

    def __init__(self, store: str, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("keepstone", __version__, provider)
        self._propagator = TraceContextTextMapPropagator()  # without baggage
        self._store = store
        self._captures_content = (provider_variable(_CAPTURE) or "").lower() in ("true", "1")
        self._verb = contexts.create_key("keepstone.verb")

    # -- requests -------------------------------------------------------------------------------------------------
    def start_request(self, scope: Scope) -> RequestSpan:
        """Start the span of a request; it is the current span until `end_request`."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in (b"traceparent", b"tracestate")
        }
        parent = self._propagator.extract(carrier)
        method = scope["method"] if scope["method"] in METHODS else "HTTP"
        attributes = {"http.request.method": method if method != "HTTP" else "_OTHER", "url.scheme": scope.get("scheme", "http")}
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        return RequestSpan(span, contexts.attach(trace.set_span_in_context(span, parent)))

    def end_request(self, request_span: RequestSpan, scope: Scope, route: str, status: int) -> None:
        """Record the route and the status, and end the span."""
        contexts.detach(request_span.token)
        span = request_span.span
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
    async def trace_verb(self, request: Request) -> AsyncIterator[None]:
        """A dependency of every route: the span of its verb."""
        operation = operation_of(request.scope.get("route"), request.method)
        if operation is None:
            yield
            return
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "keepstone",
            "gen_ai.memory.store.id": self._store,
        }
        if self._captures_content and operation == SEARCH and (text := await _query_text(request)):
            attributes["gen_ai.memory.query.text"] = text
        with self._tracer.start_as_current_span(
            operation, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            token = contexts.attach(contexts.set_value(self._verb, span))
            try:
                yield
            except Exception as error:  # its message may hold personal data
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise
            finally:
                contexts.detach(token)

    def record_result(self, result: object) -> None:
        """Record on the verb's span the number of records, or the id of the one record."""
        span = contexts.get_value(self._verb)
        if not isinstance(span, Span):
            return
        if isinstance(result, Recall):
            span.set_attribute("gen_ai.memory.record.count", len(result.hits))
        elif isinstance(result, Page):
            span.set_attribute("gen_ai.memory.record.count", len(result.records))
        elif isinstance(result, ForgetReceipt):
            span.set_attribute("gen_ai.memory.record.count", result.forgotten)
        elif isinstance(result, (Receipt, Record)) and result.id is not None:
            span.set_attribute("gen_ai.memory.record.id", result.id)
            span.set_attribute("gen_ai.memory.record.count", 1)


def operation_of(route: Any, method: str) -> str | None:
    """The operation of a route by the conventions; None if it does not concern memories."""
    verb, path = getattr(route, "operation_id", None), getattr(route, "path_format", "")
    if verb is None or not path.startswith("/v1/") or path.split("/")[2] in _UNTRACED:
        return None
    if verb in _READING_POSTS or method == "GET":
        return SEARCH
    return DELETE if method == "DELETE" or verb.startswith("forget") else UPDATE


async def _query_text(request: Request) -> str | None:
    """The query, from the body or from the query string."""
    if request.method == "GET":
        return (request.query_params.get("words") or "")[:_MAX_QUERY_CHARS] or None
    body = await request.json()
    text = body.get("query") if isinstance(body, dict) else None
    return text[:_MAX_QUERY_CHARS] if isinstance(text, str) else None


def set_up() -> Any:
    """Set the tracer provider of a server process, unless it has one. The OTEL_* variables choose the exporters; the default is
    OTLP if an exporter for it is installed, else the console."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigurationError(
            f"telemetry needs OpenTelemetry's SDK ({error}): {install_command('otel')}, or turn the setting telemetry off."
        ) from None
    current = trace.get_tracer_provider()
    if not isinstance(current, trace.ProxyTracerProvider):
        return current
    named = "service.name=" in (provider_variable("OTEL_RESOURCE_ATTRIBUTES") or "") or provider_variable("OTEL_SERVICE_NAME")
    attributes: dict[str, Any] = {"service.version": __version__} | ({} if named else {"service.name": "keepstone"})
    provider = Provider(resource=Resource.create(attributes))
    for exporter in _exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter()))
    trace.set_tracer_provider(provider)
    return provider


def _exporters() -> list[Any]:
    """The exporters that OTEL_TRACES_EXPORTER names."""
    installed = {entry.name: entry for entry in entry_points(group="opentelemetry_traces_exporter")}
    protocol = provider_variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or provider_variable("OTEL_EXPORTER_OTLP_PROTOCOL")
    otlp = {"grpc": ["otlp_proto_grpc"], "http/protobuf": ["otlp_proto_http"]}.get(
        protocol or "", ["otlp_proto_http", "otlp_proto_grpc"]
    )
    wanted = provider_variable("OTEL_TRACES_EXPORTER")
    if wanted is None:
        wanted = "otlp" if any(name in installed for name in otlp) else "console"
    chosen = []
    for name in (part.strip() for part in wanted.split(",")):
        candidates = otlp if name == "otlp" else [name]
        entry = next((installed[candidate] for candidate in candidates if candidate in installed), None)
        if entry is None and name != "none":
            raise ConfigurationError(
                f"the trace exporter {name!r:.40} (OTEL_TRACES_EXPORTER) is not installed: install opentelemetry-exporter-otlp, "
                f"or use one of {', '.join(sorted(installed))}, none."
            )
        if entry is not None:
            chosen.append(entry.load())
    return chosen
