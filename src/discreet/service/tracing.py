"""Spans of requests for OpenTelemetry (extra `traces`): routes, statuses and durations, no values.

Where and how they go is said by the variables of OpenTelemetry itself, OTEL_EXPORTER_OTLP_*. A
caller's `traceparent` is followed, so a trace links a visit with its decision and its reward: who
keeps traces keeps what a web log says.
"""

from collections.abc import Callable, Iterable

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PARENT = b"traceparent"
Note = Callable[[Iterable[tuple[bytes, bytes]], str, str, int, int, float], None]


def exporting(exporter: SpanExporter | None = None) -> Note:
    """A function that notes a request, and sends it from a thread of its own."""
    return noting(BatchSpanProcessor(exporter or OTLPSpanExporter()))


def noting(processor: SpanProcessor) -> Note:
    """A function that notes a request."""
    provider = TracerProvider(resource=Resource.create({"service.name": "discreet"}))
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("discreet.service")
    follow = TraceContextTextMapPropagator().extract

    def note(
        headers: Iterable[tuple[bytes, bytes]],
        method: str,
        route: str,
        status: int,
        began: int,
        took: float,
    ) -> None:
        parent = next((value for name, value in headers if name == _PARENT), b"")
        span = tracer.start_span(
            f"{method} {route}",
            follow({"traceparent": parent.decode("latin-1")}),
            trace.SpanKind.SERVER,
            start_time=began,
            attributes={
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
            },
        )
        if status >= 500:
            span.set_status(trace.StatusCode.ERROR)
        span.end(began + int(took * 1e9))

    return note
