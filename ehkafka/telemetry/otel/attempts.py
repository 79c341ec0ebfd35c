"""The span around each attempt: middleware, on the worker that calls the handler, a worker process included.

It never shows a key or a value; an error's text, which may repeat them, only where that was asked for. What
fails in here is logged once for each kind of error, and the record is handled without a span.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ehkafka.middleware import Around, trace_context
from ehkafka.records.batch import Batch, failures_so_far
from ehkafka.records.deferral import is_deferred
from ehkafka.records.signals import RecordSignal, RejectRecord
from ehkafka.telemetry.otel import conventions as names
from ehkafka.wording.error_stack import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

    from ehkafka.telemetry.otel.conventions import Attributes

logger = logging.getLogger("ehkafka.otel")

# Failed attempts whose spans are remembered until their dead letters are safe.
FAILED_MAX = 10_000
_PROPAGATOR = TraceContextTextMapPropagator()


class FailedAttempt(NamedTuple):
    """A failed attempt: its span, and the context in which its record was made, if it had one."""

    span: SpanContext
    created: SpanContext | None


class AttemptSpans(Around):
    """Middleware for `App.use`; `shared` are the attributes of every span, asked for when the first begins.

    Goes to worker processes without the provider: there the process's own one counts.
    """

    def __init__(
        self,
        shared: Callable[[], Attributes],
        provider: TracerProvider | None,
        *,
        parent: bool,
        error_text: bool,
    ) -> None:
        self._shared = shared
        self._provider = provider
        self._parent = parent
        self._error_text = error_text
        self._both_names = names.wants_both(os.environ)
        self._tracer: Tracer | None = None
        self._common: Attributes | None = None
        # By topic, partition and offset, oldest first. Workers write, the hook takes; each step is one call.
        self.failed: OrderedDict[tuple[str, int, int], FailedAttempt] = OrderedDict()
        self._reported: set[type] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return _in_another_process, (self.common(), self._parent, self._error_text)

    def around(self, record: Any) -> AbstractContextManager[None]:
        """Return the span around one attempt."""
        return _Attempt(self, record)

    def common(self) -> Attributes:
        """Return the attributes of every span."""
        if self._common is None:
            self._common = self._shared()
        return self._common

    def tracer(self) -> Tracer:
        """Return what makes spans."""
        if self._tracer is None:
            self._tracer = trace.get_tracer("ehkafka", None, self._provider, names.SCHEMA_URL)
        return self._tracer

    def named(self, attributes: Attributes) -> Attributes:
        """Return attributes with their older names, if both are wanted."""
        return names.with_old_names(attributes) if self._both_names else attributes

    def add_span(
        self,
        operation: str,
        destination: str,
        attributes: Attributes,
        *,
        took_s: float = 0.0,
        error: str = "",
        attempt: FailedAttempt | None = None,
    ) -> None:
        """Make a span of what the client did, which has ended. `attempt`: whose output it was."""
        now_ns = time.time_ns()
        inside = context.Context()
        if attempt is not None:
            inside = trace.set_span_in_context(trace.NonRecordingSpan(attempt.span), inside)
        span = self.tracer().start_span(
            f"{operation} {destination}".strip(),
            context=inside,
            kind=trace.SpanKind.CLIENT,
            attributes=self.named(self.common() | names.operation(operation) | attributes),
            links=() if attempt is None or attempt.created is None else (trace.Link(attempt.created),),
            start_time=now_ns - int(took_s * 1e9),
        )
        if error:
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(trace.StatusCode.ERROR, error)
        span.end(now_ns)

    def begin(self, record: Any) -> Span:
        """Return the span of an attempt, begun."""
        if isinstance(record, Batch):
            return self._begin_batch(record)
        created = creation_of(record)
        topic = record.topic()
        attributes = self.common() | names.operation(names.PROCESS) | {names.DESTINATION: topic} | of(record)
        attempt = getattr(record, "attempt", 1)  # confluent's own message does not know it
        if attempt > 1:
            attributes[names.ATTEMPT] = attempt
        is_parent = self._parent and created is not None
        return self.tracer().start_span(
            f"{names.PROCESS} {topic}",
            context=_inside(created) if is_parent else context.Context(),
            kind=trace.SpanKind.CONSUMER,
            attributes=self.named(attributes),
            links=() if is_parent else _links(created),
        )

    def _begin_batch(self, batch: Batch) -> Span:
        topics = {record.topic() for record in batch}
        attributes = self.common() | names.operation(names.PROCESS) | {names.BATCH_COUNT: len(batch)}
        name = names.PROCESS
        if len(topics) == 1:
            attributes[names.DESTINATION] = topic = topics.pop()
            name = f"{name} {topic}"
        made = [(creation_of(record), record) for record in batch]
        return self.tracer().start_span(
            name,
            context=context.Context(),
            kind=trace.SpanKind.CONSUMER,
            attributes=self.named(attributes),
            links=[trace.Link(at, self.named(of(record))) for at, record in made if at is not None],
        )

    def end(self, span: Span, record: Any, error: BaseException | None) -> None:
        """Say how an attempt ended."""
        if isinstance(record, Batch):
            failed = [*record] if error is not None else [one for one, _ in failures_so_far(record)]
            if error is None and failed:
                span.set_attribute(names.FAILED_COUNT, len(failed))
        else:
            failed = [] if error is None else [record]
            if error is None and is_deferred(record):
                span.set_attribute(names.ANSWER, "deferred")
        if error is not None:
            self._say(span, error)
        for one in failed:
            self._remember(one, span)

    def _say(self, span: Span, error: BaseException) -> None:
        if isinstance(error, RecordSignal):
            span.set_attribute(names.ANSWER, type(error).__name__)
            if not isinstance(error, RejectRecord):
                return
        span.set_attribute(names.ERROR_TYPE, kind_of(error))
        if self._error_text:
            span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, str(error) if self._error_text else kind_of(error))

    def _remember(self, record: Any, span: Span) -> None:
        place = record.topic(), record.partition(), record.offset()
        self.failed[place] = FailedAttempt(span.get_span_context(), creation_of(record))
        if len(self.failed) > FAILED_MAX:
            self.failed.popitem(last=False)

    def report(self, error: Exception) -> None:
        """Log an error of ours or of the SDK's, once for each kind."""
        if type(error) not in self._reported:
            self._reported.add(type(error))
            logger.error("A span could not be made; records are handled all the same.", exc_info=error)


def _in_another_process(common: Attributes, parent: bool, error_text: bool) -> AttemptSpans:
    return AttemptSpans(lambda: common, None, parent=parent, error_text=error_text)


class _Attempt(AbstractContextManager[None]):
    """One attempt inside of its span, which can neither fail it nor hide that it failed."""

    __slots__ = ("_record", "_span", "_spans", "_token")

    def __init__(self, spans: AttemptSpans, record: Any) -> None:
        self._spans = spans
        self._record = record
        self._span: Span | None = None

    def __enter__(self) -> None:
        try:
            span = self._spans.begin(self._record)
            self._token = context.attach(trace.set_span_in_context(span))
            self._span = span
        except Exception as error:
            self._spans.report(error)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        if self._span is None:
            return
        try:
            context.detach(self._token)
            try:
                self._spans.end(self._span, self._record, error)
            finally:
                self._span.end()
        except Exception as failed:
            self._spans.report(failed)


def of(record: Any) -> Attributes:
    """Return what a span or a link says of one record: never its key or value."""
    value = record.value()
    found: Attributes = {names.PARTITION: str(record.partition()), names.OFFSET: record.offset()}
    if value is None:
        return found | {names.TOMBSTONE: True}
    return found | {names.BODY_BYTES: len(value)}


def creation_of(record: Any) -> SpanContext | None:
    """Return the context in which a record was made, by its `traceparent` or `Diagnostic-Id`."""
    carrier = trace_context(record)
    if not carrier:
        return None
    found = trace.get_current_span(_PROPAGATOR.extract(carrier, context.Context())).get_span_context()
    return found if found.is_valid else None


def _inside(created: SpanContext | None) -> context.Context:
    assert created is not None
    return trace.set_span_in_context(trace.NonRecordingSpan(created), context.Context())


def _links(created: SpanContext | None) -> tuple[trace.Link, ...]:
    return () if created is None else (trace.Link(created),)
