"""Retries: what waits with a failed record, what does not, when it comes back, and when it is given up."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed, RecordRetried, RecordSkipped, UserCodeFailed
from tests.kit.inside import inside

QUICK = ehkafka.Retry(attempts=3, first_s=0.01, jitter=0)
FOR_EVER = ehkafka.Retry(attempts=None, first_s=0.02, max_s=0.02, jitter=0)


class Failing:
    """Raises for chosen keys so many times, and keeps the times of all calls."""

    def __init__(self, error: Exception | None = None, **times: int) -> None:
        self.error = error or ValueError("no luck")
        self.left = {key.encode(): count for key, count in times.items()}
        self.calls: dict[bytes, list[tuple[int, int, float]]] = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, record: Any) -> None:
        """Note offset, attempt and time; raise while the key has failures left."""
        with self._lock:
            key = record.key()
            self.calls[key].append((record.offset(), record.attempt, time.monotonic()))
            fails = self.left.get(key, 0) > 0
            self.left[key] = self.left.get(key, 0) - 1
        if fails:
            raise self.error

    def attempts(self, key: bytes) -> list[tuple[int, int]]:
        """Offset and attempt of each call for a key."""
        return [call[:2] for call in self.calls[key]]


def test_only_the_failing_key_waits_and_it_holds_neither_worker_nor_intake_credit(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """With one worker and room for two records, 40 records of other keys pass three that wait."""
    recorder.fail_at(0)
    lab.produce("bad bad bad")
    app = lab.app(
        recorder,
        workers=1,
        backlog_records_max=2,
        consume_records_max=2,
        retry=ehkafka.Retry(attempts=None, first_s=60.0, max_s=60.0),
    )
    app.start()
    wait_for(lambda: app.snapshot().partitions and app.snapshot().partitions[0].parked_records == 3)
    lab.produce(" ".join(f"k{n}" for n in range(40)))
    wait_for(lambda: recorder.count == 40)
    assert recorder.keys.count(b"bad") == 1
    (partition,) = app.snapshot().partitions
    assert (partition.parked_records, partition.backlog_records) == (3, 0)
    assert lab.committed() in (None, 0)
    app.stop()


def test_a_retried_record_keeps_its_key_in_order_and_is_committed(
    lab: Any, events: Any, wait_for: Any
) -> None:
    """Attempts 1 to 3 of the first, then the key's next records; nothing is passed meanwhile."""
    handler = Failing(a=2)
    lab.produce("a a b a")
    app = lab.app(handler, retry=QUICK)
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 4)
    app.stop()
    assert handler.attempts(b"a") == [(0, 1), (0, 2), (0, 3), (1, 1), (3, 1)]
    assert lab.committed() == 4
    assert [(e.attempt, e.error) for e in events.of(RecordRetried)] == [
        (1, "ValueError: no luck"),
        (2, "ValueError: no luck"),
    ]
    assert events.of(HandlerFailed) == []


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("delay_s", [0.01, 0.2, 1.0])
def test_delays_are_honoured(lab: Any, wait_for: Any, delay_s: float, busy: bool) -> None:
    """Never early, and late by at most 10 % and 50 ms; the best of some, for machines are busy."""
    names = [f"k{n}" for n in range(6)]
    handler = Failing(**dict.fromkeys(names, 1))
    app = lab.app(handler, workers=4, retry=ehkafka.Retry(first_s=delay_s, max_s=delay_s, jitter=0))
    app.start()
    for name in names:
        lab.produce(name)
        if busy:
            lab.produce(" ".join(f"x{n}" for n in range(200)))
    wait_for(lambda: all(len(handler.calls[name.encode()]) == 2 for name in names))
    app.stop()
    waits = [handler.calls[name.encode()][1][2] - handler.calls[name.encode()][0][2] for name in names]
    assert min(waits) >= delay_s
    assert min(waits) <= delay_s * 1.1 + 0.05


def test_many_retries_leave_nothing_behind(lab: Any, wait_for: Any) -> None:
    """10 records that fail again and again are 10 waiting keys, however often."""
    handler = Failing(**{f"k{n}": 10**9 for n in range(10)})
    lab.produce(" ".join(f"k{n}" for n in range(10)))
    app = lab.app(
        handler, retry=ehkafka.Retry(attempts=None, first_s=0.0, max_s=0.0), on_failure=ehkafka.Hold()
    )
    app.start()
    wait_for(lambda: sum(map(len, list(handler.calls.values()))) >= 300)
    inboxes = inside(app).inboxes
    assert len(inboxes.waiting._timers) <= 20
    assert len(inboxes.router.held) <= 10
    assert len(inboxes.router.attempts) <= 10
    app.stop(drain=False)


def test_attempts_that_are_used_up_lead_to_the_policy(lab: Any, wait_for: Any, events: Any) -> None:
    """The third failure of three is reported as final; `Skip()` lets the key go on."""
    handler = Failing(a=3)
    lab.produce("a a")
    app = lab.app(handler, retry=QUICK, on_failure=ehkafka.Skip())
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert handler.attempts(b"a") == [(0, 1), (0, 2), (0, 3), (1, 1)]
    (skipped,) = events.of(RecordSkipped)
    assert (skipped.offset, skipped.attempt, skipped.reason) == (0, 3, "ValueError: no luck")


@pytest.mark.parametrize("kind", ["function", "raw", "class"])
def test_a_record_that_cannot_be_decoded_takes_the_failure_path(
    lab: Any, events: Any, wait_for: Any, kind: str
) -> None:
    """`record.json()` raising is a failure like any other, here without a retry."""
    seen: list[Any] = []

    class Decoder:
        def process(self, record: Any) -> None:
            seen.append(record.json())

    def decode(record: Any) -> None:
        seen.append((ehkafka.Record(record) if kind == "raw" else record).json())

    lab.produce("a", value=b'{"n": 1')
    lab.produce("a", value=b'{"n": 2}')
    app = lab.app(
        Decoder if kind == "class" else decode,
        raw=kind == "raw",
        retry=ehkafka.Retry(give_up_on=ValueError),
        on_failure=ehkafka.Skip(),
    )
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 2)
    app.stop()
    assert seen == [{"n": 2}]
    (skipped,) = events.of(RecordSkipped)
    assert skipped.attempt == 1
    assert "JSONDecodeError" in skipped.reason


def test_retry_later_waits_as_asked_and_uses_up_no_attempt(lab: Any, wait_for: Any) -> None:
    """Four asked retries and two failures fit into three attempts; `record.attempt` counts every call."""
    script = [
        *[ehkafka.RetryLater(0.01)] * 2,
        ValueError("1"),
        *[ehkafka.RetryLater(0.01)] * 2,
        ValueError("2"),
    ]
    attempts: list[int] = []

    def handler(record: Any) -> None:
        attempts.append(record.attempt)
        if script:
            raise script.pop(0)

    lab.produce("a")
    app = lab.app(handler, retry=QUICK)
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert attempts == [1, 2, 3, 4, 5, 6, 7]


def test_retry_later_needs_no_retry_policy(lab: Any, wait_for: Any) -> None:
    """The handler's own wish counts with the default, which knows no retry."""
    handler = Failing(ehkafka.RetryLater(0.01, "not yet"), a=3)
    lab.produce("a")
    app = lab.app(handler)
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert len(handler.calls[b"a"]) == 4


def test_skip_record_and_reject_record_end_a_record_at_once(lab: Any, wait_for: Any, events: Any) -> None:
    """No retry for either: the one is skipped, the other goes to `on_failure`."""
    signals: dict[bytes, Exception] = {
        b"s": ehkafka.SkipRecord("a test"),
        b"r": ehkafka.RejectRecord("broken"),
    }
    calls: list[Any] = []

    def handler(record: Any) -> None:
        calls.append(record.key())
        raise signals[record.key()]

    lab.produce("s r")
    app = lab.app(handler, retry=QUICK, on_failure=ehkafka.Hold())
    app.add_hook(events)
    app.start()
    wait_for(lambda: len(calls) == 2 and events.of(HandlerFailed) and events.of(RecordSkipped))
    assert [(e.offset, e.reason) for e in events.of(RecordSkipped)] == [(0, "a test")]
    (failed,) = events.of(HandlerFailed)
    assert (failed.offset, failed.error) == (1, "RejectRecord: broken")
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert sorted(calls) == [b"r", b"s"]


@pytest.mark.parametrize("answer", ["soon", -1, True, float("nan")])
def test_a_retry_function_that_answers_nonsense_is_reported_and_leaves_it_to_the_policy(
    lab: Any, wait_for: Any, events: Any, answer: Any
) -> None:
    """The record does not stay in the air, and the event says what was answered."""
    handler = Failing(a=1)
    lab.produce("a")
    app = lab.app(handler, retry=lambda *_arguments: answer, on_failure=ehkafka.Skip())
    app.add_hook(events)
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    (reported,) = events.of(UserCodeFailed)
    assert reported.where == "retry"
    assert repr(answer) in reported.error


def test_a_retry_function_decides_by_record_attempt_and_error(lab: Any, wait_for: Any) -> None:
    """It gets what it needs, and None gives the record up."""
    asked: list[Any] = []

    def retry(record: ehkafka.Record, attempt: int, error: Exception) -> float | None:
        asked.append((record.offset(), record.attempt, attempt, str(error)))
        return 0.01 if attempt < 2 else None

    handler = Failing(a=9)
    lab.produce("a")
    app = lab.app(handler, retry=retry, on_failure=ehkafka.Skip())
    app.start()
    wait_for(lambda: lab.committed() == 1)
    app.stop()
    assert asked == [(0, 1, 1, "no luck"), (0, 2, 2, "no luck")]


def test_a_stop_waits_for_retries_that_come_in_time(lab: Any, wait_for: Any) -> None:
    """The record is finished and committed before the app leaves."""
    handler = Failing(a=1)
    lab.produce("a a")
    app = lab.app(handler, retry=ehkafka.Retry(first_s=0.4, jitter=0))
    app.start()
    # The second one may be received later than the first, and a stop receives nothing more.
    wait_for(lambda: handler.calls[b"a"] and app.snapshot().received_records == 2)
    app.stop(drain="all")
    assert handler.attempts(b"a") == [(0, 1), (0, 2), (1, 1)]
    assert lab.committed() == 2
