"""Spans of running apps: each attempt, batches, dead letters, commits, and whose they are."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import KafkaError
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.schemas import Schemas
from opentelemetry.trace import SpanKind, StatusCode

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.otel import Tracing
from ehkafka.telemetry.otel import conventions
from ehkafka.testing import ApiKey
from tests.kit.waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PRODUCED = "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{PRODUCED}-01"


class Spans:
    """A provider whose spans a test can look at."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def run(
        self, lab: Any, handler: Any, count: int = 1, *, how: Any = None, **options: Any
    ) -> list[ReadableSpan]:
        """Run an app until it has made so many spans of attempts; return them in the order of offsets."""
        app = lab.app(handler, **options)
        Tracing(app, self.provider, **(how or {}))
        app.start()
        wait_until(lambda: len(self.of("process t")) == count)
        app.stop(drain=False)
        return sorted(self.of("process t"), key=lambda span: of(span).get("messaging.kafka.offset", 0))

    def of(self, name: str) -> list[ReadableSpan]:
        """Return those of this name, in the order in which they ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def spans() -> Spans:
    """Return an empty one."""
    return Spans()


def produce(lab: Any, *records: tuple[str, dict[str, bytes]]) -> None:
    """Produce records of these keys, with headers."""
    for key, headers in records:
        lab.broker.produce("t", [(key.encode(), b"a value")], partition=0, headers=list(headers.items()))


def links_of(span: ReadableSpan) -> list[str]:
    """Return the span ids that a span is linked to."""
    return [trace.format_span_id(link.context.span_id) for link in span.links]


def of(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


def test_an_attempt_is_a_span_that_is_linked_to_the_producer(lab: Any, recorder: Any, spans: Spans) -> None:
    """With the conventions' attributes, current while the handler runs, and nothing of key or value."""
    current: list[Any] = []
    recorder.work = lambda _record: current.append(trace.get_current_span().get_span_context())
    produce(lab, ("a key", {"traceparent": PARENT.encode()}))
    (span,) = spans.run(lab, recorder)
    assert of(span) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "g",
        "messaging.kafka.offset": 0,
        "messaging.message.body.size": 7,
        "server.address": "127.0.0.1",
    }
    assert (span.kind, span.parent, links_of(span)) == (SpanKind.CONSUMER, None, [PRODUCED])
    assert trace.format_trace_id(span.context.trace_id) != TRACE
    assert span.status.status_code is StatusCode.UNSET
    assert current == [span.context]
    assert span.instrumentation_scope.schema_url == Schemas.V1_44_0.value == conventions.SCHEMA_URL
    assert "key" not in span.to_json()
    assert "a value" not in span.to_json()


def test_by_option_the_producer_s_span_is_the_parent(lab: Any, recorder: Any, spans: Spans) -> None:
    """All is one trace then; a record without a context begins one."""
    produce(lab, ("a", {"Diagnostic-Id": PARENT.encode()}), ("b", {}))
    first, second = spans.run(lab, recorder, 2, how={"parent": True})
    assert first.parent is not None
    assert trace.format_span_id(first.parent.span_id) == PRODUCED
    assert trace.format_trace_id(first.context.trace_id) == TRACE
    assert (first.links, second.parent, second.links) == ((), None, ())


def test_a_context_in_amqp_is_understood(lab: Any, recorder: Any, spans: Spans) -> None:
    """As producers of the Azure SDKs send it: a text of AMQP's, in the older header."""
    amqp = b"\xa1" + bytes([len(PARENT)]) + PARENT.encode()
    produce(lab, ("a", {"Diagnostic-Id": amqp}))
    (span,) = spans.run(lab, recorder, headers="amqp")
    assert links_of(span) == [PRODUCED]


def test_each_attempt_is_a_span_and_all_are_linked(lab: Any, spans: Spans) -> None:
    """What failed has its error's type, and not its text, which may repeat the record."""

    def handle(record: Any) -> None:
        if record.attempt < 3:
            raise ValueError("no luck with a value")

    produce(lab, ("a", {"traceparent": PARENT.encode()}))
    found = spans.run(lab, handle, 3, retry=ehkafka.Retry(attempts=5, first_s=0.01))
    assert [of(span).get("ehkafka.attempt") for span in found] == [None, 2, 3]
    assert [of(span).get("error.type") for span in found] == ["ValueError", "ValueError", None]
    assert [span.status.status_code for span in found] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]
    assert [links_of(span) for span in found] == [[PRODUCED]] * 3
    assert len({span.context.trace_id for span in found}) == 3
    assert all("a value" not in span.to_json() for span in found)


def test_an_error_s_text_is_shown_where_that_is_asked_for(lab: Any, spans: Spans) -> None:
    """With its stack, as an event of the span."""

    def handle(_record: Any) -> None:
        raise ValueError("no luck")

    lab.produce("a")
    (span,) = spans.run(lab, handle, how={"error_text": True}, on_failure=ehkafka.Skip())
    assert span.status.description == "no luck"
    (event,) = span.events
    assert "in handle" in str((event.attributes or {})["exception.stacktrace"])


@pytest.mark.parametrize(
    ("signal", "answer", "error"),
    [
        (ehkafka.SkipRecord("old"), "SkipRecord", None),
        (ehkafka.RetryLater(60.0), "RetryLater", None),
        (ehkafka.RejectRecord("no"), "RejectRecord", "RejectRecord"),
    ],
)
def test_what_a_handler_answers_is_no_error(
    lab: Any, spans: Spans, signal: Exception, answer: str, error: str | None
) -> None:
    """But for the answer that its record has failed."""

    def handle(_record: Any) -> None:
        raise signal

    lab.produce("a")
    (span,) = spans.run(lab, handle, on_failure=ehkafka.Hold())
    assert of(span)["ehkafka.answer"] == answer
    assert (of(span).get("error.type") or "").rpartition(".")[2] == (error or "")
    assert (span.status.status_code is StatusCode.ERROR) == (error is not None)


def test_a_batch_is_one_span_with_a_link_for_each_record(lab: Any, spans: Spans) -> None:
    """That says which record it is for; how many failed stands at the span."""

    def store(batch: Any) -> None:
        batch.fail(batch[1], ValueError("no luck"))

    other = PRODUCED[:-1] + "8"
    produce(
        lab,
        ("a", {"traceparent": PARENT.encode()}),
        ("b", {"traceparent": PARENT.replace(PRODUCED, other).encode()}),
        ("c", {}),
    )
    (span,) = spans.run(lab, store, batch_records_max=3, wait_s_max=5.0, on_failure=ehkafka.Skip())
    assert (of(span)["messaging.batch.message_count"], of(span)["ehkafka.batch.failed_count"]) == (3, 1)
    assert "messaging.kafka.offset" not in of(span)
    assert links_of(span) == [PRODUCED, other]
    assert [dict(link.attributes or {})["messaging.kafka.offset"] for link in span.links] == [0, 1]


def test_a_dead_letter_is_a_span_below_the_attempt_that_failed(dead: Any, spans: Spans) -> None:
    """Linked to the producer, whose context the letter keeps."""

    def handle(_record: Any) -> None:
        raise ValueError("no luck")

    produce(dead, ("a", {"traceparent": PARENT.encode()}))
    app = dead.app(handle, on_failure=ehkafka.DeadLetter("dead"))
    Tracing(app, spans.provider)
    app.start()
    wait_until(lambda: spans.of("send dead"))
    (sent,), (attempt,) = spans.of("send dead"), spans.of("process t")
    app.stop()
    assert sent.parent is not None
    assert sent.parent.span_id == attempt.context.span_id
    assert (sent.kind, links_of(sent)) == (SpanKind.CLIENT, [PRODUCED])
    assert of(sent)["messaging.operation.type"] == "send"
    assert of(sent)["messaging.destination.name"] == "dead"


def test_a_commit_is_a_span_that_took_its_time(lab: Any, recorder: Any, spans: Spans) -> None:
    """Named after the topic; one that was refused has the name of its error, and not the text."""
    app = lab.app(recorder)
    Tracing(app, spans.provider)
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    lab.broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE)
    lab.produce("a")
    wait_until(lambda: len(spans.of("settle t")) >= 2)
    app.stop()
    refused = [span for span in spans.of("settle t") if "error.type" in of(span)]
    good = [span for span in spans.of("settle t") if "error.type" not in of(span)]
    assert [of(span)["error.type"] for span in refused] == ["OFFSET_METADATA_TOO_LARGE"]
    assert good[0].kind is SpanKind.CLIENT
    assert of(good[0])["messaging.operation.type"] == "settle"
    assert of(good[0])["messaging.destination.partition.id"] == "0"
    assert all((span.end_time or 0) > (span.start_time or 0) for span in good)


def test_an_async_attempt_is_current_in_its_own_task_alone(lab: Any, spans: Spans) -> None:
    """Each sees its own span, and none is left behind for the next record."""
    seen: list[tuple[int, Any]] = []

    async def handle(record: Any) -> None:
        seen.append((record.offset(), trace.get_current_span().get_span_context()))

    lab.produce("a b c d")
    made = {of(one)["messaging.kafka.offset"]: one.context for one in spans.run(lab, handle, 4, workers=4)}
    assert dict(seen) == made
    assert all(span.parent is None for span in spans.of("process t"))


def test_a_span_is_over_when_its_attempt_is(lab: Any, recorder: Any, spans: Spans) -> None:
    """Whatever goes around it, and the worker's next record, stand in no span of ours."""
    outside: list[Any] = []

    def around(record: Any, call_next: Any) -> Any:
        result = call_next(record)
        outside.append(trace.get_current_span().get_span_context().is_valid)
        return result

    lab.produce("a b")
    app = lab.app(recorder, workers=1)
    app.use(around)
    Tracing(app, spans.provider)
    app.start()
    wait_until(lambda: len(outside) == 2)
    app.stop()
    assert outside == [False, False]


def test_older_names_stand_beside_the_new_ones_on_request(
    lab: Any, recorder: Any, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For dashboards that know version 1.24 alone."""
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http, messaging/dup")
    lab.produce("a")
    found = of(spans.run(lab, recorder)[0])
    old = {
        "messaging.operation": "process",
        "messaging.kafka.consumer.group": "g",
        "messaging.kafka.destination.partition": 0,
        "messaging.kafka.message.offset": 0,
    }
    assert old.items() <= found.items()
    assert found["messaging.operation.type"] == "process"


def test_every_name_is_one_of_the_pinned_version() -> None:
    """Our own begin with `ehkafka`."""
    modules = (messaging_attributes, error_attributes, server_attributes)
    there = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    ours = {
        value
        for name, value in vars(conventions).items()
        if name.isupper() and isinstance(value, str) and "." in value and "/" not in value
    } - {conventions.VERSION}
    assert {name for name in ours if not name.startswith("ehkafka.")} <= there
    operations = {one.value for one in messaging_attributes.MessagingOperationTypeValues}
    assert {conventions.PROCESS, conventions.SEND, conventions.SETTLE} <= operations


def test_a_tracer_that_fails_fails_no_record(
    lab: Any, recorder: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, once for each kind of error."""

    class Broken:
        def get_tracer(self, *_arguments: Any, **_options: Any) -> Any:
            raise OSError("no exporter")

    lab.produce("a b")
    app = lab.app(recorder)
    Tracing(app, Broken())  # type: ignore[arg-type]
    app.start()
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert caplog.text.count("A span could not be made") == 1


def test_worker_processes_make_spans_by_their_own_provider() -> None:
    """What goes there knows the group and the options; the provider stays here."""
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("localhost:9092"), start="earliest")
    Tracing(app, Spans().provider, parent=True)
    (middleware,) = app._hooks["middleware"]
    there = pickle.loads(pickle.dumps(middleware))
    assert there.common() == {
        "messaging.consumer.group.name": "g",
        "server.address": "localhost",
    }
    assert (there._provider, there._parent) == (None, True)


def test_bad_options_are_refused_and_a_missing_extra_is_named() -> None:
    """Where the tracing is made."""
    app = ehkafka.App(group="g", start="earliest")
    with pytest.raises(ConfigurationError, match="parent='yes'"):
        Tracing(app, parent="yes")  # type: ignore[arg-type]
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import ehkafka.otel\n"
        "try: ehkafka.otel.Tracing(None)\n"
        "except ehkafka.errors.MissingExtraError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Traces need opentelemetry-api: pip install 'opentelemetry-api>=")
