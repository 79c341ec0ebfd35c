"""What a topic's limit refuses, one output or only a batch of them: few others wait, and all is in order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import DeadLetter
from ehkafka.events import OutputRefused, TransactionAborted
from tests.integration.answering import MODES
from tests.kit.topic_read import read_all, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

REFUSED = 20
# Three times what it takes; a second and a half for each refusal are more.
TIMEOUT_S = 24.0
# One for each refusal at most, of which each record has two, and some for what was refused along with one.
ENDS_MAX = 2 * REFUSED + 5
# The client's batch is halved until it fits.
HALVED_MAX = 12


@pytest.mark.parametrize("mode", MODES)
def test_a_topic_that_takes_less_than_the_clients_batch(answering: Callable[..., Any], mode: str) -> None:
    """No output of it is too large, so none is refused: smaller batches go."""
    one = answering(mode, bytes_max=20_000)
    one.send = lambda _record, place: place + b" " + b"y" * 150
    one.produce(6_000)
    one.run(one.made(), 0, TIMEOUT_S)
    one.judge(without=set(), repeats_max=HALVED_MAX)
    assert one.events.of(OutputRefused) == []
    assert len(one.events.of(TransactionAborted)) <= HALVED_MAX, one.events.of(TransactionAborted)
    assert len(one.replaced()) <= HALVED_MAX, one.replaced()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("count", "size", "bytes_max"), [(5_000, 0, 50_000), (500, 50_000, 200_000)], ids=["small", "50 kB"]
)
def test_some_refused_outputs_of_thousands(
    answering: Callable[..., Any], mode: str, count: int, size: int, bytes_max: int
) -> None:
    """Each is tried again and then its record is a letter; the others are hardly delayed."""
    one = answering(mode, bytes_max=bytes_max)
    one.produce(count)
    # They are of few keys, so these have more of them than one.
    every = count // REFUSED
    refused = {one.place_of(number) for number in range(every // 2, count, every)}
    assert len(refused) == REFUSED

    def send(record: Any, place: bytes) -> bytes:
        is_refused = (record.partition(), record.offset()) in refused
        return place + b" " + bytes(bytes_max + 10_000 if is_refused else size)

    one.send = send
    one.run(one.made(), 0, TIMEOUT_S)
    # What waited with the first refused one may come again, once.
    one.judge(without=refused, repeats_max=1)
    assert one.letters() == sorted(refused), f"FACT: letters are {one.letters()}"
    sent = len(read_all(one.stage.broker.bootstrap, one.out))
    assert sent - (count - REFUSED) <= (0 if one.is_exact else count // 2)
    assert {event.attempt for event in one.events.of(OutputRefused)} == {1, 2}
    assert len(one.events.of(TransactionAborted)) <= (ENDS_MAX if one.is_exact else 0)
    assert len(one.replaced()) <= ENDS_MAX, one.replaced()


@pytest.mark.parametrize("mode", MODES)
def test_a_letter_that_is_too_large_keeps_its_place(
    stage_on: Callable[..., Any], kafka: KafkaBroker, mode: str
) -> None:
    """It goes with less of its error, and before the letters of the records that follow their key."""
    stage = stage_on(kafka, 1)
    dead, load = f"{stage.topic}-dead", stage.load()
    kafka.create_topic(dead, 1, {"max.message.bytes": "1800"})
    load.put_all(*[b"a", b"b"] * 4)

    def handle(_record: Any) -> None:
        raise ValueError("\u00e9" * 1_000)

    app = stage.app(
        handle,
        on_failure=DeadLetter(dead, after="divert_key"),
        workers=2,
        exactly_once=mode == "exactly once",
    )
    app.start()
    stage.wait_until_committed(load.ends, TIMEOUT_S)
    app.stop()
    letters: dict[bytes, list[int]] = defaultdict(list)
    for letter in read_messages(kafka.bootstrap, dead):
        letters[letter.key()].append(int(dict(letter.headers())["ehkafka-origin-offset"]))
    assert letters == {b"a": [0, 2, 4, 6], b"b": [1, 3, 5, 7]}, f"FACT: letters are {dict(letters)}"
