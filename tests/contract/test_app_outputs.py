"""Outputs of handlers: in the topic, in order, and never behind the commit of what they were made of."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import ehkafka
from ehkafka.events import OutputRefused, ProducerReplaced
from ehkafka.testing import ApiKey
from tests.contract import output_handlers as handlers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

KEYS = ("a", "b", "c")


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs, of two partitions."""
    lab.broker.create_topic("out", 2)
    lab.broker.create_topic("out2", 1)
    return lab


def pairs(messages: list[Any]) -> list[tuple[bytes, int]]:
    """Return key and number of each output."""
    return [(message.key(), int(message.value())) for message in messages]


def in_order(found: list[tuple[bytes, int]]) -> bool:
    """Whether the numbers of each key rise."""
    by_key: dict[bytes, list[int]] = {}
    for key, number in found:
        by_key.setdefault(key, []).append(number)
    return all(numbers == sorted(set(numbers)) for numbers in by_key.values())


def by_message(message: Any) -> Any:
    """Send the offset."""
    return str(message.offset())


PROCESSES = {"workers": ehkafka.Processes(2)}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threads": (handlers.plain, {}),
    "slow": (handlers.slow, {}),
    "tasks": (handlers.plain_async, {}),
    "raw": (by_message, {"raw": True}),
    "class": (handlers.Instance, {}),
    "processes": (handlers.plain, PROCESSES),
    "slow processes": (handlers.slow, PROCESSES),
    "waiting": (handlers.plain, {"acknowledged": "before_next"}),
    "waiting tasks": (handlers.plain_async, {"acknowledged": "before_next"}),
    "waiting processes": (handlers.plain, {"acknowledged": "before_next", **PROCESSES}),
}


class Kind(NamedTuple):
    """How a handler of a kind of workers is registered: the end of its name, and its options."""

    suffix: str
    options: dict[str, Any]


# All kinds of workers; those that run one record at a time.
WORKERS = {
    "threads": Kind("", {}),
    "tasks": Kind("_async", {}),
    "batches": Kind("_batch", {"wait_s_max": 0.1}),
    "processes": Kind("", PROCESSES),
}
ONE_BY_ONE = ("threads", "tasks", "processes")


def sending(lab: Any, handler: Any, **options: Any) -> Any:
    """Return an app whose handler sends to `out`."""
    app = lab.app(None)
    decorate = app.batch_handler if handler.__name__.endswith("_batch") else app.handler
    decorate("t", to=options.pop("to", "out"), **options)(handler)
    return app


@pytest.fixture
def gated(out: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Make apps of a kind of workers whose calls wait for the gate, which is open when the test ends.

    Whoever produces sends produce requests, too: so what the app is to meet is set after it.
    """
    monkeypatch.setenv(handlers.DIRECTORY, str(tmp_path))

    def make(kind: str, handler: str = "gated", **options: Any) -> Any:
        suffix, own = WORKERS[kind]
        return sending(out, getattr(handlers, handler + suffix), **own, **options)

    yield make
    handlers.open_gate()


def calls() -> list[int]:
    """The offsets of the calls that have passed the gate."""
    return [int(line) for line in handlers.lines()]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_handler_returns_is_sent_in_order_before_its_commit(
    out: Any, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """One output for each record, each key's in order, and all is committed in the end."""
    out.produce(" ".join(KEYS * 100))
    handler, options = KINDS[kind]
    app = sending(out, handler, **options)
    app.start()
    found = pairs(read_topic("out", 300))
    wait_for(lambda: out.committed() == 300)
    assert sorted(number for _, number in found) == list(range(300))
    assert in_order(found)
    app.stop()


def test_a_batch_sends_what_it_returns_and_what_its_records_send(
    out: Any, wait_for: Any, read_topic: Any
) -> None:
    """A sum of its own for each batch, and one output for each record."""
    out.produce("a b a b")
    app = out.app()

    @app.batch_handler("t", batch_records_max=4, wait_s_max=0.2, to=["out", "out2"])
    def handle(batch: Any) -> Any:
        for record in batch:
            record.send(str(record.offset()))
        return [ehkafka.Send({"sum": len(batch)}, key=None, topic="out2")]

    app.start()
    assert sorted(number for _, number in pairs(read_topic("out", 4))) == [0, 1, 2, 3]
    wait_for(lambda: out.committed() == 4)
    app.stop()


@pytest.mark.parametrize("kind", WORKERS)
def test_nothing_is_committed_before_its_output_is_acknowledged(
    out: Any, gated: Any, kind: str, wait_for: Any
) -> None:
    """Records have ended, their outputs have not arrived: the commit waits, and goes on with them."""
    out.produce("a " * 10)
    app = gated(kind)
    app.start()
    out.broker.delay_next(ApiKey.PRODUCE, 1.5)
    handlers.open_gate()
    wait_for(lambda: app.snapshot().finished_records == 10)
    time.sleep(0.4)
    assert out.committed() in (0, None)
    wait_for(lambda: out.committed() == 10)
    app.stop()


@pytest.mark.parametrize("kind", WORKERS)
def test_a_stop_waits_for_the_outputs_and_repeats_nothing(
    out: Any, gated: Any, kind: str, wait_for: Any
) -> None:
    """What was handled is sent and committed before the app leaves."""
    out.produce("a " * 10)
    app = gated(kind)
    app.start()
    out.broker.delay_next(ApiKey.PRODUCE, 1.0)
    handlers.open_gate()
    wait_for(lambda: app.snapshot().finished_records == 10)
    app.stop()
    assert out.committed() == 10


@pytest.mark.parametrize("code", [10, 87])
@pytest.mark.parametrize("kind", WORKERS)
def test_a_refused_output_is_sent_again_without_another_call(
    out: Any, gated: Any, code: int, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """The broker refuses one request: the handler is not called again, nothing is lost, the order is kept."""
    out.produce(" ".join(KEYS * 50))
    app = gated(kind)
    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, code)
    handlers.open_gate()
    found = pairs(read_topic("out", 150))
    wait_for(lambda: out.committed() == 150)
    assert sorted(calls()) == list(range(150))
    assert sorted(number for _, number in found) == list(range(150))
    assert in_order(found)
    app.stop()


@pytest.mark.parametrize(
    ("code", "kind"), [(47, "threads"), (49, "tasks"), *((59, kind) for kind in WORKERS)]
)
def test_a_forgotten_producer_id_costs_no_output(
    out: Any, gated: Any, code: int, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """Another producer sends all that is not acknowledged, in its old order, before anything new."""
    out.produce(" ".join(KEYS * 50))
    app = gated(kind)
    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, code, code, code)
    handlers.open_gate()
    found = pairs(read_topic("out", 150))
    wait_for(lambda: out.committed() == 150)
    assert {number for _, number in found} == set(range(150))
    assert in_order(found)
    app.stop()


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_an_output_refused_for_good_is_skipped_by_the_policy(
    out: Any, gated: Any, kind: str, events: Any, wait_for: Any, read_topic: Any
) -> None:
    """Each try is counted as the retry says; then the policy decides, and the later ones of its key go on."""
    out.produce("a a")
    retry = ehkafka.Retry(attempts=3, first_s=0.01)
    app = gated(kind, retry=retry, on_failure=ehkafka.Skip())
    app.add_hook(events)
    app.start()
    # The request with both, then the first one alone.
    out.broker.fail_next(ApiKey.PRODUCE, *[87] * 4)
    handlers.open_gate()
    wait_for(lambda: out.committed() == 2)
    assert [event.attempt for event in events.of(OutputRefused)] == [1, 2, 3]
    assert [number for _, number in pairs(read_topic("out", 1))] == [1]
    app.stop()


@pytest.mark.parametrize("kind", WORKERS)
def test_an_output_refused_for_good_stops_the_app_uncommitted(out: Any, gated: Any, kind: str) -> None:
    """The default policy: the error names the record, and nothing is committed past it."""
    out.produce("a b c")
    app = gated(kind)
    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, *[87] * 6)
    handlers.open_gate()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="output of t\\[0\\]"):
        app.stop()
    assert out.committed() in (0, None)


@pytest.mark.parametrize("kind", WORKERS)
def test_an_output_refused_for_good_is_dead_lettered(
    out: Any, gated: Any, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """The record's letter is safe before it is committed."""
    out.broker.create_topic("dead", 1)
    out.produce("a")
    app = gated(kind, on_failure=ehkafka.DeadLetter("dead"))
    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    handlers.open_gate()
    (letter,) = read_topic("dead", 1)
    assert dict(letter.headers())["ehkafka-origin-offset"] == b"0"
    wait_for(lambda: out.committed() == 1)
    app.stop()


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_before_next_a_refused_output_fails_the_attempt(
    out: Any, gated: Any, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """Its key waits, so the handler is called again, and Hold may be the policy."""
    out.produce("a a")
    retry = ehkafka.Retry(attempts=2, first_s=0.01)
    app = gated(kind, retry=retry, acknowledged="before_next", on_failure=ehkafka.Hold())
    app.start()
    # Together, then alone.
    out.broker.fail_next(ApiKey.PRODUCE, 87, 87)
    handlers.open_gate()
    wait_for(lambda: out.committed() == 2)
    assert calls() == [0, 0, 1]
    assert pairs(read_topic("out", 2)) == [(b"a", 0), (b"a", 1)]
    app.stop()


def test_before_next_and_a_deferred_record_are_refused(out: Any) -> None:
    """Its outputs could come until the token is answered, so its key's next record cannot wait for them."""
    out.produce("a")
    app = sending(out, lambda record: record.defer() and None, acknowledged="before_next")
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="leave out one of the two"):
        app.stop()


def test_a_missing_topic_ends_the_start(out: Any) -> None:
    """It is said before anything runs."""
    app = sending(out, handlers.plain, to="nowhere")
    with pytest.raises(ehkafka.errors.TopicNotFoundError, match="to="):
        app.start()


def test_a_record_sends_until_its_outcome(out: Any, wait_for: Any, read_topic: Any) -> None:
    """Within its call, and from elsewhere while it is deferred; afterwards that is an error."""
    kept: list[Any] = []

    def handle(record: Any) -> None:
        record.send("0")
        kept.append((record, record.defer()))

    app = sending(out, handle)
    app.start()
    out.produce("a")
    wait_for(lambda: kept)
    record, token = kept[0]
    record.send("1")
    token.finish()
    wait_for(lambda: out.committed() == 1)
    with pytest.raises(RuntimeError, match="has ended"):
        record.send("2")
    assert [number for _, number in pairs(read_topic("out", 2))] == [0, 1]
    app.stop()


@pytest.mark.parametrize("kind", WORKERS)
def test_what_is_too_large_fails_the_attempt(
    out: Any, gated: Any, kind: str, wait_for: Any, read_topic: Any
) -> None:
    """It is refused before anything later goes, by the handler's own policy."""
    options = {"batch_records_max": 1} if kind == "batches" else {}
    app = gated(kind, "large", on_failure=ehkafka.Skip(), **options)
    app.start()
    out.produce("a a a")
    assert len(read_topic("out", 2)) == 2
    wait_for(lambda: out.committed() == 3)
    assert app.snapshot().skipped_records == 1
    app.stop()


@pytest.mark.parametrize("workers", [1, ehkafka.Processes(1)])
def test_a_send_without_to_is_an_error(out: Any, workers: Any) -> None:
    """Nothing is dropped silently."""
    app = out.app(handlers.unasked, workers=workers)
    app.start()
    out.produce("a")
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match="to="):
        app.stop()


def test_a_broker_that_throttles_by_refusals_loses_and_skips_nothing(
    out: Any, gated: Any, events: Any, wait_for: Any, read_topic: Any
) -> None:
    """What it refuses to throttle is no refusal: the same goes out again later, and no policy is asked."""
    out.produce(" ".join(KEYS * 50))
    app = gated("threads", retry=ehkafka.Retry(attempts=1), on_failure=ehkafka.Skip())
    app.add_hook(events)
    app.start()
    out.broker.fail_next(ApiKey.PRODUCE, 89)
    handlers.open_gate()
    found = pairs(read_topic("out", 150))
    wait_for(lambda: out.committed() == 150)
    assert sorted(number for _, number in found) == list(range(150))
    assert in_order(found)
    assert events.of(OutputRefused) == []
    (replaced,) = events.of(ProducerReplaced)
    assert "THROTTLING_QUOTA_EXCEEDED" in replaced.reason
    assert replaced.wait_s > 0.0
    app.stop()


def test_an_output_has_its_records_key_or_the_partition_key_of_an_amqp_producer(
    out: Any, wait_for: Any, read_topic: Any
) -> None:
    """Events of AMQP have no key; as text or as AMQP's own encoding it is the same one."""
    app = sending(out, handlers.plain)
    app.start()
    out.produce("own")
    for header in (b"amqp", b"\xa1\x04amqp"):
        out.broker.produce("t", [(None, b"x")], headers={"x-opt-partition-key": header}, partition=0)
    out.produce("-")
    found = sorted(pairs(read_topic("out", 4)), key=lambda one: one[1])
    assert found == [(b"own", 0), (b"amqp", 1), (b"amqp", 2), (None, 3)]
    app.stop()
