"""What a topic's limit refuses, one output or only a batch of them: few others wait, and all is in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import DeadLetter, Retry
from ehkafka.events import OutputRefused, TransactionAborted
from tests.contract.outputs_order import problems
from tests.kit.events import Events
from tests.kit.topic_read import letters_of, read_all, read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

MODES: dict[str, dict[str, Any]] = {"exactly once": {"exactly_once": True}, "at least once": {}}
INPUT_PARTITIONS = 6
OUTPUT_PARTITIONS = 6
KEYS = 150
REFUSED = 20
# Three times what it takes; a second and a half for each refusal are more.
TIMEOUT_S = 24.0
# One for each refusal at most, of which each record has two, and some for what was refused along with one.
ENDS_MAX = 2 * REFUSED + 5


class Inputs:
    """What a stage's topic holds, with what its outputs are to be."""

    def __init__(self, stage: Any, count: int) -> None:
        self.stage = stage
        self.out, self.dead = f"{stage.topic}-out", f"{stage.topic}-dead"
        self.load = stage.load()
        self.load.put_all(*[b"key-%d" % (number % KEYS) for number in range(count)])
        self.messages = read_messages(stage.broker.bootstrap, stage.topic)

    def places(self) -> list[tuple[int, int]]:
        """Return each record's."""
        return [(message.partition(), message.offset()) for message in self.messages]

    def place_of(self, number: int) -> tuple[int, int]:
        """Return that of the record that was produced so late."""
        of_key = [one for one in self.messages if one.key() == b"key-%d" % (number % KEYS)]
        message = of_key[number // KEYS]
        return message.partition(), message.offset()

    def outputs(self, without: set[tuple[int, int]]) -> dict[bytes, list[bytes]]:
        """Return what each key's outputs begin with, in order, but for records whose output is refused."""
        found: dict[bytes, list[bytes]] = defaultdict(list)
        for message, place in zip(self.messages, self.places(), strict=True):
            if place not in without:
                found[message.key()].append(b"%d:%d" % place)
        return found

    def sent(self) -> list[tuple[bytes, bytes]]:
        """Return key and place of each output that readers see."""
        found = read_all(self.stage.broker.bootstrap, self.out)
        return [(key, value.partition(b" ")[0]) for key, value in found]

    def letters(self) -> list[tuple[int, int]]:
        """Return the places of all dead letters, sorted."""
        found = letters_of(self.stage.broker.bootstrap, self.dead)
        return sorted((partition, offset) for partition, offset, _ in found)


def replaced(events: Events) -> list[Any]:
    """Return what tells of a producer that was given up."""
    return [event for event in events if type(event).__name__.endswith("ProducerReplaced")]


@pytest.fixture
def inputs_of(stage_on: Callable[..., Any], kafka: KafkaBroker) -> Callable[[int, int], Inputs]:
    """Return what makes so many inputs, and a topic for outputs with a limit."""

    def make(count: int, bytes_max: int) -> Inputs:
        inputs = Inputs(stage_on(kafka, INPUT_PARTITIONS), count)
        kafka.create_topic(inputs.out, OUTPUT_PARTITIONS, {"max.message.bytes": f"{bytes_max}"})
        kafka.create_topic(inputs.dead, 1)
        return inputs

    return make


@pytest.mark.parametrize("mode", MODES)
def test_a_topic_that_takes_less_than_the_clients_batch(inputs_of: Any, mode: str) -> None:
    """No output of it is too large, so none is refused: smaller batches go."""
    inputs, events, calls = inputs_of(6_000, 20_000), Events(), Counter[tuple[int, int]]()

    def handle(record: Any) -> bytes:
        place = record.partition(), record.offset()
        calls[place] += 1
        return b"%d:%d " % place + b"y" * 150

    app = inputs.stage.app(handle, to=inputs.out, workers=16, **MODES[mode])
    app.add_hook(events)
    app.start()
    inputs.stage.wait_until_committed(inputs.load.ends, TIMEOUT_S)
    app.stop()
    is_exact = mode == "exactly once"
    found = problems(inputs.outputs(set()), inputs.sent(), repeats=not is_exact)
    assert found == [], f"FACT: outputs are lost, repeated or out of order: {found[:20]}"
    assert events.of(OutputRefused) == []
    assert set(calls.values()) == {1}
    # The client's batch is halved until it fits.
    assert len(events.of(TransactionAborted)) <= 12, events.of(TransactionAborted)
    assert len(replaced(events)) <= 12, replaced(events)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("count", "size", "bytes_max"), [(5_000, 0, 50_000), (500, 50_000, 200_000)], ids=["small", "50 kB"]
)
def test_some_refused_outputs_of_thousands(
    inputs_of: Any, mode: str, count: int, size: int, bytes_max: int
) -> None:
    """Each is tried again and then its record is a letter; the others are hardly delayed."""
    inputs, events = inputs_of(count, bytes_max), Events()
    # They are of three keys, so these have more of them than one.
    every = count // REFUSED
    refused = {inputs.place_of(number) for number in range(every // 2, count, every)}
    assert len(refused) == REFUSED

    def handle(record: Any) -> bytes:
        place = record.partition(), record.offset()
        return b"%d:%d " % place + bytes(bytes_max + 10_000 if place in refused else size)

    policy = {"retry": Retry(attempts=2, first_s=0.05), "on_failure": DeadLetter(inputs.dead)}
    app = inputs.stage.app(handle, to=inputs.out, workers=16, **policy, **MODES[mode])
    app.add_hook(events)
    app.start()
    inputs.stage.wait_until_committed(inputs.load.ends, TIMEOUT_S)
    app.stop()
    wanted, sent = inputs.outputs(refused), inputs.sent()
    is_exact = mode == "exactly once"
    found = problems(wanted, sent, repeats=not is_exact)
    assert found == [], f"FACT: outputs are lost, repeated or out of order: {found[:20]}"
    letters = inputs.letters()
    assert letters == sorted(refused), f"FACT: letters are {letters}"
    # What waited with the first refused one may come again, once.
    assert max(Counter(sent).values()) <= (1 if is_exact else 2)
    assert len(sent) - (count - REFUSED) <= (0 if is_exact else count // 2)
    assert {event.attempt for event in events.of(OutputRefused)} == {1, 2}
    assert len(events.of(TransactionAborted)) <= (ENDS_MAX if is_exact else 0)
    assert len(replaced(events)) <= ENDS_MAX, replaced(events)


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

    app = stage.app(handle, on_failure=DeadLetter(dead, after="divert_key"), workers=2, **MODES[mode])
    app.start()
    stage.wait_until_committed(load.ends, TIMEOUT_S)
    app.stop()
    letters: dict[bytes, list[int]] = defaultdict(list)
    for letter in read_messages(kafka.bootstrap, dead):
        letters[letter.key()].append(int(dict(letter.headers())["ehkafka-origin-offset"]))
    assert letters == {b"a": [0, 2, 4, 6], b"b": [1, 3, 5, 7]}, f"FACT: letters are {dict(letters)}"
