"""Tracing: what a program makes to have spans, and the spans of what happens after an attempt.

Dead letters and commits are taken from events, on the telemetry thread, when they are over; their spans begin
when what they tell of began, as far as that is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.events import CommitAcknowledged, CommitFailed, DeadLetterFailed, RecordDeadLettered
from ehkafka.telemetry.otel import conventions as names
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.trace import TracerProvider

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.records import TopicPartition
    from ehkafka.settings import Settings
    from ehkafka.telemetry.otel.attempts import AttemptSpans
    from ehkafka.telemetry.otel.conventions import Attributes

# What an error's description begins with: `MSG_TIMED_OUT (…): …`, `OSError: …`.
_NAME_OF_ERROR = re.compile(r"\w+(?= \(|:)")


class Traced(Protocol):
    """The app."""

    def use(self, middleware: Any) -> Any:
        """Put middleware around each attempt."""

    def add_hook(self, hook: Any) -> None:
        """Hand events on."""

    @property
    def settings(self) -> Settings:
        """The settings in effect."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the broker is."""


class Tracing:
    """Spans for an app: `process TOPIC` around each attempt, `send TOPIC` for letters, `settle` for commits.

    - `app` (required): make this before the app's own middleware, so that their time is in the span.
    - `tracer_provider` (default `None`): whose spans they are. `None`: OpenTelemetry's global one.
    - `parent` (default `False`): whether the producer's span becomes the parent of the first one here. Else
      they are linked, as the conventions want it, and each attempt begins a trace of its own.
    - `error_text` (default `False`): whether spans have the text and stack of an error, which may repeat the
      record's value. Its type they always have.

    Raises `MissingExtraError` without opentelemetry-api.
    """

    def __init__(
        self,
        app: Traced,
        tracer_provider: TracerProvider | None = None,
        *,
        parent: bool = False,
        error_text: bool = False,
    ) -> None:
        for what, value in (("parent", parent), ("error_text", error_text)):
            if not isinstance(value, bool):
                raise ConfigurationError(f"Tracing({what}={value!r}): give True or False.")
        spans = _attempt_spans()
        self._attempts: AttemptSpans = spans(
            lambda: _shared(app), tracer_provider, parent=parent, error_text=error_text
        )
        app.use(self._attempts)
        app.add_hook(_Afterwards(self._attempts))


class _Afterwards:
    """Makes spans of events. On the telemetry thread."""

    def __init__(self, attempts: AttemptSpans) -> None:
        self._attempts = attempts

    def on_event(self, event: Event) -> None:
        """Make a span of what letters and commits tell."""
        if isinstance(event, RecordDeadLettered):
            self._send(event, "")
            self._attempts.failed.pop((*event.partition, event.offset), None)
        # One that the broker has not refused is waited for: its end comes as an event of its own.
        elif isinstance(event, DeadLetterFailed) and event.retry_s != 0:
            self._send(event, _name_of(event.error))
        elif isinstance(event, CommitAcknowledged):
            self._settle([partition for partition, _ in event.next_offsets], event.took_s, "")
        elif isinstance(event, CommitFailed):
            self._settle(event.partitions, event.took_s, _name_of(event.error))

    def _send(self, event: RecordDeadLettered | DeadLetterFailed, error: str) -> None:
        attempt = self._attempts.failed.get((*event.partition, event.offset))
        self._attempts.add_span(
            names.SEND, event.to, {names.DESTINATION: event.to}, error=error, attempt=attempt
        )

    def _settle(self, partitions: Iterable[TopicPartition], took_s: float, error: str) -> None:
        named = list(partitions)
        topics = {partition.topic for partition in named}
        attributes: Attributes = {}
        if len(topics) == 1:
            attributes[names.DESTINATION] = named[0].topic
        if len(named) == 1:
            attributes[names.PARTITION] = str(named[0].partition)
        self._attempts.add_span(
            names.SETTLE, topics.pop() if len(topics) == 1 else "", attributes, took_s=took_s, error=error
        )


def _shared(app: Traced) -> Attributes:
    """Return what all spans of an app have in common. Once it runs: settings may come late."""
    return {names.GROUP: app.settings.group, names.SERVER_ADDRESS: app.endpoint.name}


def _name_of(error: str) -> str:
    """Return the name that a client's error begins with; its text may hold anything."""
    found = _NAME_OF_ERROR.match(error)
    return found[0] if found else names.OTHER


def _attempt_spans() -> Any:
    try:
        from ehkafka.telemetry.otel.attempts import AttemptSpans  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        raise MissingExtraError(f"Traces need opentelemetry-api: {install('otel')}") from None
    return AttemptSpans
