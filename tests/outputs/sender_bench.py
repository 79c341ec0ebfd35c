"""A bench for the sender of outputs: driven step by step, with producers that a test answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.batch import OutputBatch
from ehkafka.outputs.book import OutputBook
from ehkafka.outputs.claim import Claim, Output, SingleOutput
from ehkafka.outputs.sender import OutputSender
from ehkafka.records import TopicPartition
from tests.kit.simulated.message import SimulatedMessage

REFUSED = KafkaError.INVALID_RECORD
GAPLESS = KafkaError._GAPLESS_GUARANTEE


nobody: Any = None
# How outputs come: with claims, with none yet, and together with others.
WAYS = ("claims", "singles", "bundles")
# Of which outputs of a batch the producer reports what became of them.
REPORTS = ("each", "the last")


def partition_of(key: bytes) -> int:
    """Return where a key's outputs go: each letter has a partition, and `d` the same as `a`."""
    return (key[0] - ord("a")) % 3


def single(epoch: Epoch, offset: int, value: bytes, key: bytes) -> SingleOutput:
    """Return the one output of a record's call."""
    message = SimulatedMessage(epoch.partition.topic, epoch.partition.partition, offset, key)
    return SingleOutput(nobody, epoch, message, "out", value, key, None, len(value))


class Report:
    """What comes with an answer."""

    def __init__(self, key: bytes, value: bytes, offset: int | None = 0) -> None:
        self._key, self._value, self._offset = key, value, offset

    def partition(self) -> int:
        """Return where it went."""
        return partition_of(self._key)

    def key(self) -> bytes:
        """Return the message's key."""
        return self._key

    def value(self) -> bytes:
        """Return what it says."""
        return self._value

    def offset(self) -> int | None:
        """Return where the message is; None: not said."""
        return self._offset


class Client:
    """Keeps what it was given, until the test answers it."""

    def __init__(self) -> None:
        # What somebody waits for the report of has it as its third part.
        self.sent: list[tuple[bytes, bytes, Any]] = []
        # To which partition each went, -1: as its key says; and those that there are.
        self.given: list[int] = []
        self.partitions = {-1, 0, 1, 2}

    def produce(
        self, _topic: str, value: bytes, key: Any, partition: int, on_delivery: Any, *, headers: Any = None
    ) -> None:
        """Take a message."""
        assert headers is None
        if partition not in self.partitions:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        self.given.append(partition)
        self.sent.append((value, key, on_delivery))

    def produce_batch(self, _topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        """Take what goes to one partition."""
        for message in messages:
            assert partition_of(message["key"]) == partition
            self.sent.append((message["value"], message["key"], message.get("callback")))
        return len(messages)

    def values(self) -> str:
        """Return what it has, not answered."""
        return b" ".join(value for value, *_ in self.sent).decode()

    def answer(self, count: int = 1, code: int | None = None) -> None:
        """Answer the oldest ones."""
        for _ in range(count):
            value, key, on_delivery = self.sent.pop(0)
            if on_delivery is not None:
                on_delivery(None if code is None else KafkaError(code), Report(key, value))


class Producer:
    """One client after another."""

    def __init__(self) -> None:
        self.clients = [Client()]
        self.faults: list[bool] = []
        self.waits: list[bool] = []
        self.is_lost = False
        self.errors = 0
        self.problem = None

    @property
    def client(self) -> Client:
        """The one that is open."""
        return self.clients[-1]

    def give_up(self, _answers_s: float) -> None:
        """Take back what was not answered."""
        self.clients[-1].answer(len(self.clients[-1].sent), KafkaError._PURGE_INFLIGHT)

    def renew(self, *, is_fault: bool = True, waits: bool = False) -> None:
        """Give it up, and be open again."""
        self.give_up(0.0)
        self.faults.append(is_fault)
        self.waits.append(waits)
        self.is_lost = False
        self.clients.append(Client())

    def failed(self, _error: KafkaError) -> None:
        """Note what ended it."""
        self.is_lost = True

    def serve(self, _timeout_s: float) -> None:
        """Answer nothing by itself."""

    def acknowledged(self) -> None:
        """Note nothing."""

    def reported(self) -> None:
        """Note an answer with an error."""
        self.errors += 1

    def open_when_due(self) -> None:
        """Be open already."""


class Bench:
    """A book, its sender driven step by step, and one partition."""

    def __init__(
        self, *, at_once: bool = True, way: str = WAYS[0], reports: str = "the last", by_key: bool = True
    ) -> None:
        """`at_once`: each producer has had an answer for every key already; `reports`: see `REPORTS`."""
        self.way = way
        outlet: Any = SimpleNamespace(topic="out")
        self.book = outlet.book = OutputBook()
        self.outlet = outlet
        self.main, self.second = Producer(), Producer()
        self.judged: list[tuple[bytes | None, int, Any]] = []
        self.delays_s: list[float | None] = []
        self.sender = OutputSender(
            self.book,
            self.main,  # type: ignore[arg-type]
            lambda: self.second,  # type: ignore[arg-type, return-value]
            judge_of=lambda _output: self.judge,
            emit=lambda _event: None,
            on_death=lambda _error: None,
            busy=busy_codes(is_event_hubs=True),
            at_once=reports == "the last",
            by_key=by_key,
        )
        if at_once:
            self.sender._first_answers.holds = lambda _output: False  # type: ignore[method-assign]
            self.sender._first_answers.partitions = (  # type: ignore[method-assign]
                lambda _topic, keys: list(map(partition_of, keys))
            )
        self.epoch = self.assign()
        self.offset = 0

    def assign(self, partition: int = 0) -> Epoch:
        """Begin an epoch."""
        return Epoch(TopicPartition("t", partition), 1, {})

    def judge(self, output: Output, _error: Exception, attempt: int, answer: Any) -> None:
        """Do as the test says; without a delay, leave the answer to the test."""
        self.judged.append((output.value, attempt, answer))
        if self.delays_s and (delay_s := self.delays_s.pop(0)) is not None:
            answer(delay_s)

    def add(self, text: str, epoch: Epoch | None = None) -> None:
        """Add outputs such as `a1`: a key and a number, each of a record of its own."""
        for word in text.split():
            value, key = word.encode(), word[:1].encode()
            place = epoch or self.epoch, self.offset
            self.offset += 1
            if self.way == "bundles":
                message = SimulatedMessage("t", place[0].partition.partition, place[1], key)
                self.book.add_plain((self.outlet, place[0], message, key, value, None))
            elif self.way == "singles":
                self.book.add_single(single(*place, value, key))
            else:
                claim = Claim(nobody, (place,), None, 1)
                self.book.add(claim, [Output(claim, "out", value, key, None, -1, 2)])

    def turn(self, turns: int = 1) -> None:
        """Let the sender go round."""
        for _ in range(turns):
            self.sender._wake.set()
            self.sender._turn()

    @property
    def waiting(self) -> set[int]:
        """Offsets that must not be committed."""
        return set(self.book.waiting(self.epoch))


def batches_of(bench: Bench) -> int:
    """Return how many batches are on their way."""
    return sum(isinstance(one, OutputBatch) for one in bench.sender._in_flight)


def answer_for(bench: Bench, value: str, code: int | None = None) -> None:
    """Answer one output, wherever it stands, if anybody waits for its report."""
    sent = bench.main.client.sent
    (place,) = [place for place, (one, *_) in enumerate(sent) if one == value.encode()]
    one, key, on_delivery = sent.pop(place)
    if on_delivery is not None:
        on_delivery(None if code is None else KafkaError(code), Report(key, one))


def full_after(bench: Bench, room: int) -> None:
    """Let the client take so many outputs more."""
    client, produce, produce_batch = (
        bench.main.client,
        bench.main.client.produce,
        bench.main.client.produce_batch,
    )
    room += len(client.sent)

    def produce_while_there_is_room(*arguments: Any, **headers: Any) -> None:
        if len(client.sent) >= room:
            raise BufferError
        produce(*arguments, **headers)

    def batch_while_there_is_room(topic: str, messages: list[dict[str, Any]], partition: int) -> int:
        left = max(0, room - len(client.sent))
        for message in messages[left:]:
            message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
        return produce_batch(topic, messages[:left], partition)

    client.produce = produce_while_there_is_room  # type: ignore[method-assign]
    client.produce_batch = batch_while_there_is_room  # type: ignore[method-assign]


def has_room_again(bench: Bench) -> None:
    """Let it take all once more."""
    for name in ("produce", "produce_batch"):
        bench.main.client.__dict__.pop(name, None)
