"""Several threads in one consumer: they close it at once, or while others poll, or poll together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka

    Open = Callable[..., ehkafka.Consumer]

LIMIT_S = 15.0
CLOSERS = 3


def polling(consumer: ehkafka.Consumer, how: str, ended: list[str]) -> None:
    """Poll until that raises, commit whatever comes, and note what was raised."""
    try:
        while True:
            found = consumer.consume(10, 1.0) if how == "consume" else [consumer.poll(1.0)]
            for message in found:
                if message is not None and message.error() is None:
                    consumer.commit(message)
    except RuntimeError as error:
        ended.append(str(error))


def finished(threads: list[threading.Thread]) -> bool:
    """Wait for threads, and tell whether all have ended."""
    for thread in threads:
        thread.join(LIMIT_S)
    return not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("how", ["poll", "consume"])
@pytest.mark.parametrize("pollers", [1, 2])
@pytest.mark.parametrize("is_subscribed", [True, False])
def test_a_close_beside_threads_that_poll(
    open_consumer: Open, committed: Any, how: str, pollers: int, *, is_subscribed: bool
) -> None:
    """Each polling thread hears that the consumer is closed, by itself or another; its commit is stored."""
    consumer = open_consumer(enable_auto_commit=False)
    if is_subscribed:
        consumer.subscribe(["t"])
    else:
        consumer.assign([TopicPartition("t", 0, 0)])
    ended: list[str] = []
    begun = [
        threading.Thread(target=polling, args=(consumer, how, ended), daemon=True) for _ in range(pollers)
    ]
    for thread in begun:
        thread.start()
    closer = threading.Timer(1.0, consumer.close)
    closer.daemon = True
    closer.start()
    assert finished([closer, *begun])
    assert ended == ["Consumer closed"] * pollers
    # Of two that commit each message, the slower one may take the commit back.
    assert pollers == 2 or committed("t") == {0: 100}


def test_threads_that_close_at_once(open_consumer: Open, read: Any, committed: Any) -> None:
    """One closes, the others wait for that: afterwards all is committed and each call says closed."""
    consumer = open_consumer(enable_auto_commit=False)
    consumer.subscribe(["t"])
    for message in read(consumer, 100):
        consumer.commit(message)
    together = threading.Barrier(CLOSERS)
    stored: list[dict[int, int]] = []

    def close() -> None:
        together.wait()
        consumer.close()
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.poll(0)
        stored.append(committed("t"))

    threads = [threading.Thread(target=close, daemon=True) for _ in range(CLOSERS)]
    for thread in threads:
        thread.start()
    assert finished(threads)
    assert stored == [{0: 100}] * CLOSERS


def test_a_callback_that_waits_for_another_thread_to_close(
    open_consumer: Open, monkeypatch: pytest.MonkeyPatch, read: Any
) -> None:
    """Neither waits for ever: after a while the close gives up on the call that waits for it."""
    monkeypatch.setattr("ehkafka.consumer.consumer.CLOSE_WAIT_S", 0.1)
    consumer = open_consumer(enable_auto_commit=False)
    waited: list[bool] = []

    def wait(*_arguments: Any) -> None:
        thread = threading.Thread(target=consumer.close, daemon=True)
        thread.start()
        waited.append(finished([thread]))

    consumer.subscribe(["t"], on_revoke=wait)
    read(consumer, 1)
    consumer.close()
    assert waited == [True]


def test_two_threads_that_consume_keep_the_guard(
    open_consumer: Open, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contiguous: what one of them is about to return is noted before the other gets what follows."""
    consumer = open_consumer({"contiguous": True}, enable_auto_commit=False)
    consumer.assign([TopicPartition("t", 0, 0)])
    marks = consumer._internals.marks
    assert marks is not None
    delivered, is_slow = marks.delivered, threading.Event()

    def deliver(messages: list[Any]) -> None:
        if messages and not is_slow.is_set():
            is_slow.set()
            thread.join(0.5)  # the other one goes first, if it can
        delivered(messages)

    monkeypatch.setattr(marks, "delivered", deliver)
    second: list[Any] = []

    def follow() -> None:
        is_slow.wait(LIMIT_S)
        second.extend(consumer.consume(10, LIMIT_S))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    first = consumer.consume(10, LIMIT_S)
    assert finished([thread])
    for message in [*first, *second[1:], *read(consumer, 10)]:
        consumer.store_offsets(message)
    assert consumer.commit(asynchronous=False)[0].offset == second[0].offset()
