"""Ready-made middleware: a line for each attempt, which never touches the record."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.middleware import log_attempts, trace_context
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def record_with(**headers: bytes) -> ehkafka.Record:
    """Return a record with these headers."""
    return ehkafka.Record(MessageWithHeaders(headers))


class MessageWithHeaders(SimulatedMessage):
    """A message that has headers."""

    def __init__(self, headers: dict[str, bytes]) -> None:
        super().__init__("t", 0, 7, b"secret-key")
        self.own_headers = list(headers.items())

    def headers(self) -> Any:
        """Return them."""
        return self.own_headers


def handle(
    middleware: Callable[..., Any], record: Any, work: Callable[[Any], Any] = lambda _record: None
) -> Any:
    """Call a plain handler through a middleware."""
    return middleware(record, work)


def raises(error: BaseException) -> Callable[[Any], Any]:
    """Return a handler that raises."""

    def work(_record: Any) -> None:
        raise error

    return work


def test_every_attempt_gets_a_line_with_where_outcome_and_duration_but_no_values(
    lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for each call, retries included, on the logger and level that were given."""
    caplog.set_level(logging.DEBUG, logger="mine")

    def work(record: Any) -> None:
        if record.key() == b"secret-key" and record.attempt == 1:
            raise ValueError("secret-value")

    lab.produce("secret-key a", value=b"secret-value")
    app = lab.app(lab.recorder(work), workers=1, retry=ehkafka.Retry(attempts=2, first_s=0.01))
    app.use(log_attempts("mine", logging.DEBUG))
    app.start()
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    lines = [line for line in caplog.records if line.name == "mine"]
    ends = [(line.offset, line.attempt, line.outcome) for line in lines]  # type: ignore[attr-defined]
    assert sorted(ends) == [(0, 1, "failed with ValueError"), (0, 2, "finished"), (1, 1, "finished")]
    assert all(line.took_s >= 0 and line.levelno == logging.DEBUG for line in lines)  # type: ignore[attr-defined]
    assert lines[0].getMessage().startswith("t[0]@0, attempt 1: failed with ValueError after 0.0")
    assert "secret" not in "".join(map(str, (vars(line) for line in lines)))


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ehkafka.RetryLater(1.0), "answered RetryLater"),
        (asyncio.CancelledError(), "failed with CancelledError"),
        (StopIteration(), "failed with StopIteration"),
    ],
)
def test_the_line_tells_signals_from_failures(
    caplog: pytest.LogCaptureFixture, error: BaseException, outcome: str
) -> None:
    """What a handler raises on purpose is an answer; whatever it is, it passes through unchanged."""
    caplog.set_level(logging.INFO)
    with pytest.raises(type(error)) as caught:
        handle(log_attempts(), record_with(), raises(error))
    assert caught.value is error
    assert caplog.records[0].outcome == outcome  # type: ignore[attr-defined]


def test_a_deferred_record_ends_as_deferred(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its line comes when the handler returns, not with the answer."""
    caplog.set_level(logging.INFO, logger="ehkafka.attempts")
    lab.produce("a")
    tokens: list[Any] = []
    app = lab.app(lambda record: tokens.append(record.defer()))
    app.use(log_attempts())
    app.start()
    wait_until(lambda: tokens)
    tokens[0].finish()
    wait_until(lambda: lab.committed() == 1)
    app.stop()
    assert [r.outcome for r in caplog.records if r.name == "ehkafka.attempts"] == ["deferred"]  # type: ignore[attr-defined]


def test_raw_messages_get_a_line_too(caplog: pytest.LogCaptureFixture) -> None:
    """Confluent's own message does not know its attempt."""
    caplog.set_level(logging.INFO)
    handle(log_attempts(), SimulatedMessage("t", 0, 7, b"a"))
    assert caplog.records[0].getMessage().startswith("t[0]@7: finished after")


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (TRACE, True),
        ("cc" + TRACE[2:] + "-later", True),
        (TRACE + "-more", False),
        ("ff" + TRACE[2:], False),
        (TRACE.upper(), False),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01", False),
        (TRACE[:-3], False),
        ("", False),
        ("é" + TRACE[1:], False),
        (TRACE + "\n" + TRACE, False),
    ],
)
def test_only_valid_trace_parents_count(text: str, valid: bool) -> None:
    """A broken header must not end up in a trace."""
    carrier = {"traceparent": text} if valid else {}
    assert trace_context(record_with(traceparent=text.encode())) == carrier


def test_the_older_diagnostic_id_of_the_azure_sdks_counts() -> None:
    """It has the form of a traceparent; a traceparent next to it goes first."""
    record = record_with(**{"Diagnostic-Id": TRACE.encode()})
    assert trace_context(record) == {"traceparent": TRACE}
    assert trace_context(SimulatedMessage("t", 0, 7, b"a")) == {}


def test_it_goes_around_async_handlers_as_well(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The same object is used for plain and for `async def` handlers."""
    caplog.set_level(logging.INFO, logger="ehkafka.attempts")

    async def handler(record: Any) -> None:
        await asyncio.sleep(0.01)
        if record.key() == b"bad":
            raise ValueError("no luck")

    lab.produce("a bad")
    app = lab.app(handler, workers=4, on_failure=ehkafka.Skip())
    app.use(log_attempts())
    app.start()
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    lines = [line for line in caplog.records if line.name == "ehkafka.attempts"]
    ends = [(line.offset, line.outcome, line.took_s >= 0.01) for line in lines]  # type: ignore[attr-defined]
    assert sorted(ends) == [(0, "finished", True), (1, "failed with ValueError", True)]


@pytest.mark.parametrize("is_async", [False, True])
def test_it_goes_around_batches_as_well(lab: Any, caplog: pytest.LogCaptureFixture, is_async: bool) -> None:
    """A line for each call with its first record and how many there are."""
    caplog.set_level(logging.INFO)

    def store(_batch: ehkafka.Batch) -> None:
        """Store nothing."""

    async def store_async(_batch: ehkafka.Batch) -> None:
        """Store nothing."""

    lab.produce("a b c")
    app = lab.app()
    app.use(log_attempts())
    app.batch_handler("t", batch_records_max=3, wait_s_max=30)(store_async if is_async else store)
    app.start()
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    (line,) = [line for line in caplog.records if line.name == "ehkafka.attempts"]
    assert line.getMessage().startswith("3 records from t[0]@0, attempt 1: finished after ")
    assert line.records == 3  # type: ignore[attr-defined]


def test_it_can_be_sent_to_worker_processes() -> None:
    """It pickles."""
    middleware = log_attempts("mine")
    assert pickle.loads(pickle.dumps(middleware)) == middleware


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: log_attempts(3),  # type: ignore[arg-type]
        lambda: log_attempts(level="INFO"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused_at_once(wrong: Callable[[], Any]) -> None:
    """With the value and what to give instead."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match="give a"):
        wrong()
