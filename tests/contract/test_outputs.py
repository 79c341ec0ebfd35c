"""Outputs of handlers: in the topic, in order, and never behind the commit of what they were made of."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import OutputRefused, ProducerReplaced
from ehkafka.metrics import Collector
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.kinds import KINDS
from tests.contract.letters import TO_DEAD
from tests.contract.outputs_order import problems
from tests.contract.test_app_until_caught_up import Run
from tests.kit.metrics import Shown
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.kinds import Stage

KEYS = ("a", "b", "c")
ONE_BY_ONE = pytest.mark.parametrize("stage", ["threads", "tasks", "processes"], indirect=True)
IN_FOUR = pytest.mark.parametrize("stage", ["threads", "tasks", "batches", "processes"], indirect=True)
BEFORE_NEXT = {"acknowledged": "before_next"}


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with topics for outputs."""
    lab.broker.create_topic("out", 2)
    lab.broker.create_topic("out2", 1)
    lab.broker.create_topic("dead", 1)
    return lab


@pytest.fixture
def gated(out: Any, stage: Stage) -> Iterator[Stage]:
    """Return a stage whose calls wait for the gate.

    A test's own producer sends produce requests, too: so what the app is to meet is set after it.
    """
    assert stage.lab is out
    return stage


def produce(stage: Stage, count: int, what: str = "wait gate") -> None:
    """Produce records of three keys."""
    stage.produce(*((KEYS[number % 3], what) for number in range(count)))


def sending(stage: Stage, **options: Any) -> Any:
    """Start an app that sends the offset of each record."""
    return stage.start(handler="send", to="out", **options)


def pairs(messages: list[Any]) -> list[tuple[bytes, int]]:
    """Return key and number of each output."""
    return [(message.key(), int(message.value())) for message in messages]


def wrong(messages: list[Any], count: int, **how: bool) -> list[str]:
    """Return what is wrong with the outputs of so many records, each key's in their order."""
    inputs = {key.encode(): range(first, count, len(KEYS)) for first, key in enumerate(KEYS)}
    return problems(inputs, pairs(messages), **how)


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        *((kind, {}) for kind in KINDS),
        *((kind, BEFORE_NEXT) for kind in ("threads", "tasks", "processes")),
    ],
    indirect=["stage"],
)
@pytest.mark.parametrize("what", ["", "sleep 0.002"])
def test_what_a_handler_returns_is_sent_in_order_before_its_commit(
    gated: Stage, options: dict[str, Any], what: str, read_topic: Any
) -> None:
    """One output for each record, each key's in order, and all is committed in the end."""
    produce(gated, 150, what)
    sending(gated, **options)
    assert wrong(read_topic("out", 150), 150, repeats=False) == []
    wait_until(lambda: gated.lab.committed() == 150)


def test_a_batch_sends_what_it_returns_and_what_its_records_send(out: Any, read_topic: Any) -> None:
    """A sum of its own for each batch, and one output for each record."""
    out.produce("a b a b")

    def handle(batch: Any) -> Any:
        for record in batch:
            record.send(str(record.offset()))
        return [ehkafka.Send({"sum": len(batch)}, key=None, topic="out2")]

    out.start(handle, batch_records_max=4, wait_s_max=0.2, to=["out", "out2"])
    assert sorted(number for _, number in pairs(read_topic("out", 4))) == [0, 1, 2, 3]
    wait_until(lambda: out.committed() == 4)
    assert [one.value() for one in read_topic("out2", 1)] == [b'{"sum":4}']


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        *((kind, {}) for kind in ("threads", "tasks", "callers_loop", "batches", "processes")),
        *((kind, BEFORE_NEXT) for kind in ("threads", "processes")),
        ("threads", {"order_by": ehkafka.by_partition}),
        ("threads", {"scope": "handler"}),
    ],
    indirect=["stage"],
)
def test_a_record_is_unfinished_until_its_outputs_are_safe(gated: Stage, options: dict[str, Any]) -> None:
    """No commit, lag counts each record once, the oldest is named; a stop waits and commits all."""
    gated.produce(*((key, "wait gate") for key in "abcdefghij"))
    app = gated.app(handler="send", to="out", **options)
    shown = Shown(Collector(getattr(app, "app", app)))
    app.start()
    gated.lab.broker.delay_next(ApiKey.PRODUCE, 1.5)
    gated.open()
    wait_until(lambda: app.snapshot().unacknowledged_outputs == 10)
    assert shown.value("ehkafka_unacknowledged_outputs") == 10
    if options != BEFORE_NEXT:
        wait_until(lambda: app.snapshot().finished_records == 10)
    wait_until(lambda: app.snapshot().lag_records is not None)
    snapshot = app.snapshot()
    (one,) = snapshot.partitions
    assert (snapshot.lag_records, one.watermark) == (10, 0)
    assert (one.oldest.offset, one.oldest.key) == (0, "a")
    assert "acknowledged" in one.oldest.state
    assert gated.lab.committed() in (0, None)
    app.stop(drain="all")
    assert gated.lab.committed() == 10


@pytest.mark.parametrize(
    ("codes", "stage"),
    [
        *(((code,), kind) for code in (10, 87) for kind in ("threads", "tasks", "batches", "processes")),
        # The producer's id is lost: another one sends all that is not acknowledged before anything new.
        *(((code,) * 3, kind) for code, kind in ((47, "threads"), (49, "tasks"))),
        *(((59,) * 3, kind) for kind in ("threads", "tasks", "batches", "processes")),
        # What throttles is no refusal, so no policy is asked.
        ((89,), "threads"),
    ],
    indirect=["stage"],
)
def test_what_is_not_acknowledged_is_sent_again_without_another_call(
    gated: Stage, codes: tuple[int, ...], events: Any, read_topic: Any
) -> None:
    """Whatever the broker answers at first: nothing is lost, order is kept, no call is repeated."""
    produce(gated, 150)
    policy = {"retry": ehkafka.Retry(attempts=1), "on_failure": ehkafka.Skip()} if 89 in codes else {}
    sending(gated, **policy)
    gated.lab.broker.fail_next(ApiKey.PRODUCE, *codes)
    gated.open()
    found = read_topic("out", 150)
    wait_until(lambda: gated.lab.committed() == 150)
    assert sorted(gated.offsets("start")) == list(range(150))
    assert wrong(found, 150, repeats=len(codes) > 1) == []
    if 89 in codes:
        assert events.of(OutputRefused) == []
        (replaced,) = events.of(ProducerReplaced)
        assert "THROTTLING_QUOTA_EXCEEDED" in replaced.reason
        assert replaced.wait_s > 0.0


@ONE_BY_ONE
def test_an_output_refused_for_good_is_skipped(gated: Stage, events: Any, read_topic: Any) -> None:
    """Each try is counted as the retry says; then the policy decides, and the later ones of its key go on."""
    gated.produce(("a", "wait gate"), ("a", "wait gate"))
    sending(gated, retry=ehkafka.Retry(attempts=3, first_s=0.01), on_failure=ehkafka.Skip())
    # The request with both, then the first one alone.
    gated.lab.broker.fail_next(ApiKey.PRODUCE, *[87] * 4)
    gated.open()
    wait_until(lambda: gated.lab.committed() == 2)
    assert [event.attempt for event in events.of(OutputRefused)] == [1, 2, 3]
    assert [number for _, number in pairs(read_topic("out", 1))] == [1]


@pytest.mark.parametrize("policy", [ehkafka.Stop(), TO_DEAD], ids=["stop", "letter"])
@IN_FOUR
def test_an_output_refused_for_good_is_its_records_failure(
    gated: Stage, policy: Any, read_topic: Any
) -> None:
    """By default the error names the record, which is not committed; or its letter is safe first."""
    gated.produce(("a", "wait gate"))
    app = sending(gated, on_failure=policy)
    gated.lab.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    gated.open()
    if policy is TO_DEAD:
        (letter,) = read_topic("dead", 1)
        assert dict(letter.headers())["ehkafka-origin-offset"] == b"0"
        wait_until(lambda: gated.lab.committed() == 1)
    else:
        ends_with(app, ehkafka.errors.HandlerFailedError, r"output of t\[0\]")
        assert gated.lab.committed() in (0, None)


@ONE_BY_ONE
def test_before_next_a_refused_output_fails_the_attempt(gated: Stage, read_topic: Any) -> None:
    """Its key waits, so the handler is called again, and Hold may be the policy."""
    gated.produce(("a", "wait gate"), ("a", "wait gate"))
    sending(gated, retry=ehkafka.Retry(attempts=2, first_s=0.01), on_failure=ehkafka.Hold(), **BEFORE_NEXT)
    # Together, then alone.
    gated.lab.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    gated.open()
    wait_until(lambda: gated.lab.committed() == 2)
    assert gated.offsets("start") == [0, 0, 1]
    assert pairs(read_topic("out", 2)) == [(b"a", 0), (b"a", 1)]


@IN_FOUR
def test_what_is_too_large_fails_the_attempt(gated: Stage, read_topic: Any) -> None:
    """It is refused before anything later goes, by the handler's own policy."""
    app = sending(gated, on_failure=ehkafka.Skip())
    gated.produce(("a", ""), ("a", "large"), ("a", ""))
    assert len(read_topic("out", 2)) == 2
    wait_until(lambda: gated.lab.committed() == 3)
    assert app.snapshot().skipped_records == 1


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        *((kind, {}) for kind in KINDS if kind != "raw"),
        *((kind, BEFORE_NEXT) for kind in ("threads", "tasks", "processes")),
    ],
    indirect=["stage"],
)
def test_a_call_that_fails_has_sent_nothing(gated: Stage, options: dict[str, Any], read_topic: Any) -> None:
    """Neither an attempt before another one nor the last one; its letter is there."""
    whats = ["", "fail ValueError 1", "fail RetryLater 1", "fail SkipRecord 9", "fail ValueError 9"] * 2
    gated.produce(*((f"k{number}", what) for number, what in enumerate(whats)))
    retry = ehkafka.Retry(attempts=3, first_s=0.01)
    app = gated.start(handler="send_first", to="out", retry=retry, on_failure=TO_DEAD, **options)
    wait_until(lambda: gated.lab.committed() == 10)
    app.stop()
    assert sorted(number for _, number in pairs(read_topic("out", 6))) == [0, 1, 2, 5, 6, 7]
    letters = read_topic("dead", 2)
    assert sorted(letter.key() for letter in letters) == [b"k4", b"k9"]
    assert not [name for one in letters for name, _ in one.headers() if name.startswith("ehkafka-outputs-")]


def test_a_record_sends_until_its_outcome(out: Any, read_topic: Any) -> None:
    """Within its call, and from elsewhere while it is deferred; afterwards that is an error."""
    kept: list[Any] = []

    def handle(record: Any) -> None:
        record.send("0")
        kept.append((record, record.defer()))

    out.start(handle, to="out")
    out.produce("a")
    wait_until(lambda: kept)
    record, token = kept[0]
    record.send("1")
    token.finish()
    wait_until(lambda: out.committed() == 1)
    with pytest.raises(RuntimeError, match="is finished"):
        record.send("2")
    assert [number for _, number in pairs(read_topic("out", 2))] == [0, 1]


def unasked(_record: Any) -> Any:
    """Send without a topic."""
    return ehkafka.Send("x")


@pytest.mark.parametrize(
    ("handler", "options", "words"),
    [
        (unasked, {}, "to="),
        (unasked, {"workers": ehkafka.Processes(1)}, "to="),
        # Its outputs could come until the token is answered, so its key's next record cannot wait for them.
        (lambda record: record.defer() and None, {"to": "out", **BEFORE_NEXT}, "do not defer the record"),
    ],
)
def test_a_send_that_cannot_be_is_an_error(
    out: Any, handler: Any, options: dict[str, Any], words: str
) -> None:
    """Nothing is dropped silently."""
    out.produce("a")
    ends_with(out.start(handler, **options), ehkafka.errors.HandlerFailedError, words)


def test_an_output_has_its_records_key_or_an_amqp_producers_partition_key(out: Any, read_topic: Any) -> None:
    """Events of AMQP have no key; as text or as AMQP's own encoding it is the same one."""
    out.start(lambda record: str(record.offset()), to="out")
    out.produce("own")
    for header in (b"amqp", b"\xa1\x04amqp"):
        out.broker.produce("t", [(None, b"x")], headers={"x-opt-partition-key": header}, partition=0)
    out.produce("-")
    found = sorted(pairs(read_topic("out", 4)), key=lambda one: one[1])
    assert found == [(b"own", 0), (b"amqp", 1), (b"amqp", 2), (None, 3)]


# --- what is shown of them ---


@pytest.fixture
def held_back(out: Any) -> Any:
    """Return what starts an app whose outputs are put once the event that it returns is set."""

    def make(**options: Any) -> tuple[Any, threading.Event]:
        gate = threading.Event()
        out.recorders.append(type("Gate", (), {"open_all": lambda _self: gate.set()})())
        return out.app(lambda record: gate.wait(30.0) and str(record.offset()), to="out", **options), gate

    return make


def test_health_says_when_outputs_wait_for_long(out: Any, held_back: Any) -> None:
    """After `stuck_s` it names the record that holds the commit, and is well again with the answer."""
    out.produce("a b")
    app, gate = held_back(stuck_s=0.5)
    app.start()
    out.broker.delay_next(ApiKey.PRODUCE, 2.5)
    gate.set()
    wait_until(lambda: app.snapshot().finished_records == 2)
    wait_until(lambda: any("outputs are not acknowledged" in reason for reason in app.health().reasons))
    wait_until(lambda: app.health().ok)


def test_an_app_without_outputs_shows_no_count_of_them(lab: Any, recorder: Any) -> None:
    """A 0 would say that there is something to wait for."""
    app = lab.app(recorder)
    shown = Shown(Collector(app))
    app.start()
    assert app.snapshot().unacknowledged_outputs is None
    assert shown.value("ehkafka_unacknowledged_outputs") is None


@pytest.mark.parametrize("in_time", [True, False])
def test_a_run_until_caught_up_waits_for_outputs(out: Any, held_back: Any, *, in_time: bool) -> None:
    """It ends with all that is committed; after `settle_s` the error says what waits, and for what."""
    out.produce("a b c")
    app, gate = held_back(stop_s=0.5)
    run = Run(app, settle_s=5.0 if in_time else 1.0)
    wait_until(lambda: app.snapshot().received_records == 3)
    out.broker.delay_next(ApiKey.PRODUCE, 2.0 if in_time else 8.0)
    gate.set()
    wait_until(lambda: app.snapshot().finished_records == 3)
    if in_time:
        time.sleep(1.0)
        assert not run.has_ended
    error = run.end()
    if in_time:
        assert (error, out.committed()) == (None, 3)
    else:
        assert isinstance(error, ehkafka.errors.UnfinishedError)
        assert "t[0]@0 (its outputs are not acknowledged by the broker)" in str(error)
        assert out.committed() in (0, None)
