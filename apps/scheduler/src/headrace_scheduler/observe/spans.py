"""Spans of OpenTelemetry on the way of a job: request → enqueue → acquire → run → release.

Only the API is used: a program without an SDK records nothing, and what it passes on is the trace it was given. The
trace of a job is kept with it as its correlation id, a `traceparent`, so its runs belong to the request whenever and
wherever they are. A span names the job and how it went; never a payload, and no text of an error, which may quote one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from headrace.http import make_traceparent, read_traceparent

SCOPE = "headrace_scheduler"
NOTHING = Context()


@contextmanager
def step(name: str, parent: str | None, **about: str | int) -> Iterator[Span]:
    """One step of a job's way. What it raises is named by its class."""
    tracer = trace.get_tracer(SCOPE)
    with tracer.start_as_current_span(
        name,
        context_of(parent),
        attributes={f"scheduler.{key}": value for key, value in about.items()},
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def acquired(parent: str | None, began_ns: int, job_id: UUID, fencing_token: int) -> None:
    """The lock of a job was taken: told afterwards, because only then is its trace known."""
    about: dict[str, str | int] = {"scheduler.job_id": str(job_id), "scheduler.fencing_token": fencing_token}
    span = trace.get_tracer(SCOPE).start_span("acquire", context_of(parent), attributes=about, start_time=began_ns)
    span.end()


def context_of(traceparent: str | None) -> Context:
    """What a span of this trace is a child of: the span that is open here if it is of the trace (a web framework may
    have one), else the one it names. One without a trace begins its own."""
    text = read_traceparent(traceparent or "")
    if not text:
        return NOTHING
    _, trace_id, span_id, flags = text.split("-")
    if trace.get_current_span().get_span_context().trace_id == int(trace_id, 16):
        return get_current()
    remote = SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)))
    return trace.set_span_in_context(NonRecordingSpan(remote), NOTHING)


def traceparent(span: Span, otherwise: str | None) -> str | None:
    """What follows this span; if nobody records it, what it followed itself. A correlation id of the caller's own that
    is no trace stays as it is."""
    found = span.get_span_context()
    foreign = bool(otherwise) and not read_traceparent(otherwise or "")
    if foreign or not (found.is_valid and span.is_recording()):
        return otherwise
    return make_traceparent(trace.format_trace_id(found.trace_id), trace.format_span_id(found.span_id))


def correlation_of(traceparent: str | None, job_id: UUID) -> str:
    """What all log lines of a job have in common: the id of its trace, what its caller named, or its own."""
    text = read_traceparent(traceparent or "")
    return text.split("-")[1] if text else traceparent or str(job_id)
