"""`app.producer`: what belongs to no record is written, or its future says why not."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError, EndpointError, NotDeliveredError
from ehkafka.events import MessageNotDelivered, ProducerReplaced
from ehkafka.metrics import Collector
from ehkafka.outputs.own_producer import Delivered
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.kit.metrics import Shown
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from concurrent.futures import Future

LIMIT_S = 10.0


def idle(_record: Any) -> None:
    """Do nothing."""


def values(messages: list[Any]) -> list[bytes]:
    """Return what is in them."""
    return [message.value() for message in messages]


def producer_threads() -> list[str]:
    """Return the threads that send for some `app.producer`."""
    return [one.name for one in threading.enumerate() if one.name == "ehkafka-producer"]


def test_a_message_is_written_and_its_future_says_where(out: Any, read_topic: Any) -> None:
    """With key, headers and partition; typed values are encoded as outputs are."""
    app = out.start(idle)
    sent = app.producer.send("audit", {"a": 1}, key="k", headers={"h": "v"}, partition=1)
    assert sent.result(LIMIT_S) == Delivered("audit", 1, 0)
    (message,) = read_topic("audit", 1)
    assert (message.key(), message.value()) == (b"k", b'{"a":1}')
    assert ("h", b"v") in message.headers()
    assert app.producer.send("audit", None, partition=1).result(LIMIT_S).offset == 1


def test_an_app_that_sends_nothing_has_no_client_and_no_thread_for_it(out: Any) -> None:
    """It is opened at the first message."""
    app = out.start(idle)
    out.broker.track_requests()
    assert app.producer is app.producer
    assert app.snapshot().unacknowledged_messages is None
    assert (producer_threads(), out.broker.requests(ApiKey.INIT_PRODUCER_ID)) == ([], [])
    app.producer.send("audit", b"x").result(LIMIT_S)
    assert producer_threads() == ["ehkafka-producer"]
    assert out.broker.requests(ApiKey.INIT_PRODUCER_ID)
    app.stop()
    assert producer_threads() == []


def test_it_sends_from_on_start_through_on_stop_and_the_end_delivers_the_last(
    out: Any, read_topic: Any
) -> None:
    """No call flushes: the end does, after the last on_stop."""
    app = out.app(idle)
    app.on_start(lambda: app.producer.send("audit", b"first", partition=0))
    app.on_stop(lambda: app.producer.send("audit", b"last", partition=0))
    app.start()
    out.broker.delay_next(ApiKey.PRODUCE, 0.5)
    app.stop()
    assert values(read_topic("audit", 2)) == [b"first", b"last"]


def test_before_the_start_and_after_the_end_it_is_refused(out: Any) -> None:
    """With the app's state; it may be kept from one run to the next."""
    app = out.app(idle)
    producer = app.producer
    with pytest.raises(ConfigurationError, match="the app is new: use it from on_start to on_stop"):
        producer.send("audit", b"x")
    app.start()
    app.stop()
    with pytest.raises(ConfigurationError, match="the app is stopped"):
        producer.flush()
    app.start()
    assert producer.send("audit", b"x").result(LIMIT_S).offset == 0


def test_a_start_that_fails_after_a_message_delivers_it(out: Any, read_topic: Any) -> None:
    """The one before it was sent while the app was starting."""
    app = out.app(idle)
    app.on_start(lambda: app.producer.send("audit", b"x", partition=0) and None)

    @app.on_start
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        app.start()
    assert values(read_topic("audit", 1)) == [b"x"]
    assert producer_threads() == []


def test_what_cannot_be_sent_is_refused_at_once(out: Any) -> None:
    """Too large with both sizes; a value, a key, a topic or a partition that is none."""
    app = out.start(idle)
    send = app.producer.send
    with pytest.raises(ValueError, match=r"to 'audit' has 2000000 bytes; the limit is 999872"):
        send("audit", b"x" * 2_000_000)
    with pytest.raises(TypeError, match="object cannot be sent"):
        send("audit", object())
    with pytest.raises(TypeError, match="key of an output is of type int"):
        send("audit", b"", key=1)
    with pytest.raises(TypeError, match="topic=None"):
        send(None, b"")
    with pytest.raises(ValueError, match="partition is -2"):
        send("audit", b"", partition=-2)
    with pytest.raises(TypeError, match="header 'h' of an output is of type int"):
        send("audit", b"", headers={"h": 1})
    assert app.snapshot().unacknowledged_messages is None


def test_a_message_that_is_refused_fails_its_future_and_is_counted(out: Any, events: Any) -> None:
    """The others are written, by the same producer: refusals say nothing of it."""
    app = out.start(idle)
    app.producer.send("audit", b"1", partition=0).result(LIMIT_S)
    for _ in range(3):
        out.broker.fail_next(ApiKey.PRODUCE, 87, 87)  # alone, too
        refused = app.producer.send("audit", b"2", partition=0)
        with pytest.raises(NotDeliveredError, match="to 'audit' was not delivered: INVALID_RECORD"):
            refused.result(LIMIT_S)
    assert app.health().ok
    must_stay(lambda: not events.of(ProducerReplaced), for_s=0.6)
    assert app.producer.send("audit", b"3", partition=0).result(LIMIT_S).offset == 1
    wait_until(lambda: len(events.of(MessageNotDelivered)) == 3)
    assert app.snapshot().counters["MessageNotDelivered"] == 3


@pytest.mark.parametrize("code", [45, 47, 89])
def test_a_producer_that_is_lost_or_throttled_is_replaced_and_costs_no_message(
    out: Any, events: Any, read_topic: Any, code: int
) -> None:
    """What has no answer goes out again, in its order, by the code that does so for outputs."""
    app = out.start(idle)
    app.producer.send("audit", b"first", partition=0).result(LIMIT_S)
    out.broker.fail_next(ApiKey.PRODUCE, code)
    sent = [app.producer.send("audit", b"%d" % number, partition=0) for number in range(100)]
    assert app.producer.flush(LIMIT_S) == 0
    assert all(isinstance(one.result(0.0), Delivered) for one in sent)
    found = [int(value) for value in values(read_topic("audit", 101))[1:]]
    assert found == list(range(100))
    assert len(events.of(ProducerReplaced)) == 1


def test_a_death_of_its_thread_fails_the_futures_and_ends_the_app(out: Any, monkeypatch: Any) -> None:
    """What waits for them would wait for ever."""

    def die(_producer: Any, _timeout_s: float) -> None:
        raise RuntimeError("a defect")

    app = out.start(idle)
    app.producer.send("audit", b"1").result(LIMIT_S)
    monkeypatch.setattr("ehkafka.outputs.one_producer.OneProducer.serve", die)
    lost = app.producer.send("audit", b"2")
    with pytest.raises(NotDeliveredError, match=r"app.producer has failed: RuntimeError: a defect"):
        lost.result(LIMIT_S)
    assert app.producer.flush(LIMIT_S) == 0
    assert app.wait(LIMIT_S)
    with pytest.raises(ehkafka.EhkafkaError, match="a defect"):
        app.stop()


def test_what_the_end_cannot_deliver_is_said(out: Any, caplog: Any) -> None:
    """In its future, and in the log, which goes on after the run's own telemetry."""
    app = out.app(idle, stop_s=1.0)
    lost: list[Future[Any]] = []

    @app.on_stop
    def send_into_the_dark() -> None:
        out.broker.take_down()
        lost.append(app.producer.send("audit", b"2"))

    app.start()
    app.producer.send("audit", b"1").result(LIMIT_S)
    started_s = time.monotonic()
    with caplog.at_level(logging.ERROR, "ehkafka"):
        app.stop()
    assert time.monotonic() - started_s < 6.0
    with pytest.raises(NotDeliveredError, match="the app has ended"):
        lost[0].result(0.0)
    assert any("app.producer to audit was not delivered" in line for line in caplog.messages)
    assert app.snapshot().counters["MessageNotDelivered"] == 1


def test_a_message_that_finds_no_broker_times_out(out: Any, events: Any) -> None:
    """After `message.timeout.ms`, whatever the producer does meanwhile."""
    app = out.start(idle, producer={"message.timeout.ms": 1_000, "linger.ms": 1})
    out.broker.fail_next(ApiKey.INIT_PRODUCER_ID, *[14] * 20)
    with pytest.raises(NotDeliveredError, match=r"not delivered: .*(time|TIME)"):
        app.producer.send("audit", b"1").result(LIMIT_S)


def test_a_message_times_out_while_no_client_can_be_opened(out: Any, monkeypatch: Any) -> None:
    """Its error names the reason."""

    def refuse(*_properties: Any, **_callbacks: Any) -> None:
        raise EndpointError("the credential is away")

    monkeypatch.setattr("ehkafka.outputs.one_producer.open_producer", refuse)
    app = out.start(idle, producer={"message.timeout.ms": 1_000})
    sent = app.producer.send("audit", b"1")
    with pytest.raises(NotDeliveredError, match=r"timed out \(message.timeout.ms\): the credential is away"):
        sent.result(LIMIT_S)


def test_while_messages_wait_they_are_counted_and_flush_says_how_many(out: Any) -> None:
    """In the snapshot and in the metric."""
    app = out.app(idle)
    shown = Shown(Collector(app))
    app.start()
    assert shown.value("ehkafka_unacknowledged_messages") is None
    app.producer.send("audit", b"1").result(LIMIT_S)
    out.broker.delay_next(ApiKey.PRODUCE, 0.7)
    sent = app.producer.send("audit", b"2")
    assert app.producer.flush(0.1) == 1
    assert app.snapshot().unacknowledged_messages == 1
    assert shown.value("ehkafka_unacknowledged_messages") == 1
    assert app.producer.flush() == 0
    assert sent.done()
    assert shown.value("ehkafka_unacknowledged_messages") == 0


def test_coroutines_await_what_they_send(out: Any) -> None:
    """One by `asend`, or many futures at once."""
    found: list[Any] = []
    app = out.app(None)

    @app.handler("t")
    async def handle(record: Any) -> None:
        found.append(await app.producer.asend("audit", record.value(), partition=0))
        many = [asyncio.wrap_future(app.producer.send("audit", b"x", partition=0)) for _ in range(3)]
        found.extend(await asyncio.gather(*many))

    app.start()
    out.produce("a")
    wait_until(lambda: len(found) == 4)
    assert [one.offset for one in found] == [0, 1, 2, 3]


def test_a_full_queue_waits_on_a_thread_and_is_an_error_on_a_loop(out: Any, monkeypatch: Any) -> None:
    """A loop must not be held up; `asend` waits there."""
    app = out.start(idle)
    app.producer.send("audit", b"0").result(LIMIT_S)
    monkeypatch.setattr(app.current_run.sending.messages._outputs, "_outputs_max", 2)
    out.broker.delay_next(ApiKey.PRODUCE, 0.7)

    async def on_a_loop() -> Delivered:
        for _ in range(2):
            app.producer.send("audit", b"x")
        with pytest.raises(NotDeliveredError, match="2 messages wait for the broker"):
            app.producer.send("audit", b"x")
        return await app.producer.asend("audit", b"x")

    assert isinstance(asyncio.run(on_a_loop()), Delivered)
    out.broker.delay_next(ApiKey.PRODUCE, 0.7)
    sending = threading.Thread(target=lambda: [app.producer.send("audit", b"y") for _ in range(3)])
    sending.start()
    must_stay(sending.is_alive)
    sending.join(LIMIT_S)
    assert not sending.is_alive()


def test_what_waits_for_a_future_may_send_and_stop_the_app(out: Any, read_topic: Any) -> None:
    """On the thread that sends, which never waits for itself."""
    app = out.start(idle)
    sent = app.producer.send("audit", b"1", partition=0)

    def go_on(_future: Any) -> None:
        app.producer.send("audit", b"2", partition=0)
        assert app.producer.flush() == 1
        app.stop()

    sent.add_done_callback(go_on)
    assert app.wait(LIMIT_S)
    app.stop()
    assert values(read_topic("audit", 2)) == [b"1", b"2"]


def test_flush_returns_behind_what_the_futures_call(out: Any) -> None:
    """So what such a function has counted is whole then."""
    app = out.start(idle)
    found: list[Delivered] = []
    called = threading.Event()

    def note(future: Future[Delivered]) -> None:
        called.set()
        must_stay(lambda: True)
        found.append(future.result())

    out.broker.delay_next(ApiKey.PRODUCE, 0.3)
    app.producer.send("audit", b"1").add_done_callback(note)
    assert called.wait(LIMIT_S)
    assert app.producer.flush() == 0
    assert len(found) == 1


def test_asend_waits_for_room_that_another_thread_takes_first(out: Any, monkeypatch: Any) -> None:
    """There is room when it looks, and none any more when it sends."""
    app = out.start(idle)
    app.producer.send("audit", b"0").result(LIMIT_S)
    monkeypatch.setattr(app.current_run.sending.messages._outputs, "_outputs_max", 1)
    out.broker.delay_next(ApiKey.PRODUCE, 0.3)

    def take_the_room(_endpoint: Any, _topics: Any) -> None:
        other = threading.Thread(target=app.producer.send, args=("audit", b"1"))
        other.start()
        other.join(LIMIT_S)

    monkeypatch.setattr(ehkafka.Endpoint, "prepare_topics", take_the_room)
    assert asyncio.run(app.producer.asend("t", b"2")) == Delivered("t", 0, 0)


@pytest.mark.parametrize("ends_first", ["the message", "the app"])
def test_asend_without_room_ends_with_the_message_or_the_app(
    out: Any, monkeypatch: Any, ends_first: str
) -> None:
    """During an outage no answer makes room; a message that was never taken leaves no trace."""
    timeout_ms = 1_500 if ends_first == "the message" else 60_000
    app = out.start(idle, stop_s=1.0, producer={"message.timeout.ms": timeout_ms})
    app.producer.send("audit", b"0").result(LIMIT_S)
    own = app.current_run.sending.messages
    monkeypatch.setattr(own._outputs, "_outputs_max", 2)
    out.broker.take_down()

    async def send() -> list[Any]:
        sends = [asyncio.create_task(app.producer.asend("audit", b"x")) for _ in range(4)]
        await asyncio.sleep(0.3)
        assert len(own._unanswered) == 2
        if ends_first == "the app":
            await asyncio.to_thread(app.stop)
        return await asyncio.wait_for(asyncio.gather(*sends, return_exceptions=True), LIMIT_S)

    found = asyncio.run(send())
    assert [type(one) for one in found] == [NotDeliveredError] * 4
    words = (
        "not sent within message.timeout.ms" if ends_first == "the message" else "not sent: the app has ended"
    )
    assert [words in str(one) for one in found] == [False, False, True, True]
    wait_until(lambda: not own._unanswered)


def test_in_a_worker_process_it_says_what_to_do(out: Any) -> None:
    """There nothing of the app runs."""
    out.produce("a")
    app = out.start(send_from_child, workers=ehkafka.Processes(1))
    ends_with(app, ehkafka.errors.HandlerFailedError, "does not exist in a worker process: return the output")


child_app = ehkafka.App(group="g", start="earliest")


def send_from_child(_record: Any) -> None:
    """Send where that is refused."""
    child_app.producer.send("audit", b"x")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"partitioner": "sticky"},
            r"partitioner='sticky' is refused: it is unknown.*murmur2_random, murmur2,",
        ),
        ({"acks": 1}, "acks=1 is refused"),
        ({"message.timeout.ms": 0}, "message.timeout.ms=0 is refused"),
        ({"max.in.flight": 6}, "max.in.flight.requests.per.connection=6 is refused"),
        ({"enable.gapless.guarantee": False}, "enable.gapless.guarantee=False is refused"),
        ({"bootstrap.servers": "elsewhere:9092"}, "bootstrap.servers.*the endpoint sets another value"),
        ({"linger": 1}, "linger"),
    ],
)
def test_properties_that_break_a_promise_end_the_start(out: Any, given: Any, words: str) -> None:
    """Whether or not anything is ever sent: it can be known."""
    app = out.app(None, producer=given)
    app.handler("t", to="audit")(lambda record: record.value())
    with pytest.raises(ConfigurationError, match=words):
        app.start()


def test_keys_go_where_the_chosen_partitioner_says(out: Any, read_topic: Any) -> None:
    """Of outputs and of messages alike; the default is that of Java's producers."""
    lab = out
    lab.broker.create_topic("wide", 16)
    where: dict[str, list[int]] = {}
    for partitioner in ("murmur2_random", "fnv1a"):
        app = lab.start(idle, producer={"partitioner": partitioner} if partitioner == "fnv1a" else {})
        sent = [app.producer.send("wide", b"", key=f"key-{n}") for n in range(5)]
        where[partitioner] = [one.result(LIMIT_S).partition for one in sent]
        app.stop()
    # Of 16 partitions: murmur2 as Java computes it, and FNV-1a as librdkafka does.
    assert where["murmur2_random"] == [murmur2(b"key-%d" % n) % 16 for n in range(5)]
    assert where["fnv1a"] != where["murmur2_random"]


def murmur2(key: bytes) -> int:
    """Return the positive hash by which Java's producers choose a partition."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(key)) & mask
    for at in range(0, len(key) - len(key) % 4, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    if tail := key[len(key) - len(key) % 4 :]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return (h ^ (h >> 15)) & 0x7FFFFFFF
