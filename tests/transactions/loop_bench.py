"""A bench for transactions: a client that a test scripts, and a loop whose transactions it carries out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.unacknowledged import Unacknowledged
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import NOTHING_KNOWN, encode
from ehkafka.records import TopicPartition
from ehkafka.transactions.committing import SendOffsets
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.held import HeldOutputs
from ehkafka.transactions.loop import TransactionLoop
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.outputs.output import Answer, Output, OutputRefusedError

CODE = KafkaError.REQUEST_TIMED_OUT


def retriable() -> KafkaException:
    """Return the error of a call that is to be made again."""
    return KafkaException(KafkaError(CODE, retriable=True))


def aborting(code: int = KafkaError.ILLEGAL_GENERATION) -> KafkaException:
    """Return one after which the transaction must be aborted."""
    return KafkaException(KafkaError(code, txn_requires_abort=True))


def fatal() -> KafkaException:
    """Return one that ends the producer."""
    return KafkaException(KafkaError(KafkaError._FENCED, fatal=True))


class Client:
    """A transactional producer whose calls fail as `fails` says, each entry once; None: that one works.

    All that waits is one request, which the broker takes or refuses as a whole.
    """

    def __init__(self, broker: Broker, reported: Any, limit: Any) -> None:
        self._broker = broker
        self._reported = reported
        self._limit = limit
        self.open: list[bytes] = []
        self.offsets: Any = None
        self._queue: list[tuple[Any, Any]] = []
        self._must_abort = False

    def __len__(self) -> int:
        return len(self._queue)

    def init_transactions(self, _timeout: float) -> None:
        """Have an earlier one's transaction ended."""
        self._broker.call("init")

    def begin_transaction(self) -> None:
        """Begin one."""
        self._broker.call("begin")
        self.open, self.offsets, self._must_abort = [], None, False

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes,
        _partition: int,
        on_delivery: Any = None,
        headers: Any = None,
    ) -> None:
        """Take one message."""
        if headers is not None and not isinstance(headers, list):
            raise TypeError("headers are wrong")
        self._broker.call("produce")
        report = SimpleNamespace(topic=lambda: topic, value=lambda: value, key=lambda: key)
        self._queue.append((on_delivery or self._reported, report))

    def poll(self, timeout: float = 0.0) -> int:
        """Send what waits, if there is time, and tell of errors."""
        if timeout or self._must_abort:
            self._send()
        return 0

    def _send(self) -> None:
        queue, self._queue = self._queue, []
        for batch in self._batches(queue):
            values = [one.value() for _, one in batch]
            refused = self._broker.refuses.intersection(values)
            is_too_large = len(batch) > 1 and sum(map(len, values)) > self._broker.batch_max
            if self._must_abort:  # the broker takes nothing more of it
                code = KafkaError._PURGE_QUEUE
            elif refused:
                code = self._broker.code
            elif is_too_large:
                code = self._broker.batch_code
            else:
                self.open += values
                continue
            self._must_abort = True
            for reported, one in batch:
                reported(KafkaError(code), one)

    def _batches(self, queue: list[tuple[Any, Any]]) -> Iterator[list[tuple[Any, Any]]]:
        most, bytes_max = (self._limit.get(f"batch.{name}", 10**9) for name in ("num.messages", "size"))
        batch: list[tuple[Any, Any]] = []
        for one in queue:
            size = sum(len(other.value()) for _, other in [*batch, one])
            if batch and (len(batch) == most or size > bytes_max):
                yield batch
                batch = []
            batch.append(one)
        yield batch

    def purge(self, **_what: Any) -> None:
        """Drop what is not sent."""
        self._queue.clear()

    def send_offsets_to_transaction(self, offsets: Any, metadata: bytes, _timeout: float) -> None:
        """Take the group's offsets."""
        self._broker.call("offsets")
        self.offsets = (offsets, metadata)

    def commit_transaction(self, _timeout: float) -> None:
        """Let all be seen."""
        self._send()
        if self._must_abort:
            raise aborting(KafkaError.MSG_SIZE_TOO_LARGE)
        self._broker.call("commit")
        self._broker.visible += self.open
        self._broker.committed.append({(one.partition, one.offset) for one in self.offsets[0]})

    def abort_transaction(self, _timeout: float) -> None:
        """Drop all."""
        self._broker.call("abort")
        self._queue.clear()
        self._broker.aborted += 1
        self.open, self.offsets = [], None


class Broker:
    """What is visible in the end, and which calls fail."""

    def __init__(self) -> None:
        self.visible: list[bytes] = []
        self.committed: list[set[tuple[int, int]]] = []
        self.aborted = 0
        self.calls: list[str] = []
        self.fails: dict[str, list[KafkaException | None]] = {}
        # Values, and why; and what a batch of several may have.
        self.refuses: set[bytes] = set()
        self.code = KafkaError.POLICY_VIOLATION
        self.batch_max, self.batch_code = 1_000_000, KafkaError.MSG_SIZE_TOO_LARGE
        # Called with the name of each call.
        self.on_call: Any = lambda _name: None

    def call(self, name: str) -> None:
        """Note a call, and raise what is due."""
        self.calls.append(name)
        self.on_call(name)
        if (failures := self.fails.get(name)) and (failure := failures.pop(0)) is not None:
            raise failure


class Producer:
    """Opens clients on the broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.client: Client | None = None
        self.is_disturbed = False
        self.limit: Any = {}
        self.opened = 0

    def start(self, limit: Any, on_delivery: Any, _is_over: Any = None) -> None:
        """Open one."""
        self.opened += 1
        self.limit = limit
        self.is_disturbed = False
        client = Client(self._broker, on_delivery, limit)
        client.init_transactions(1.0)
        self.client = client

    start_app = start

    def serve(self, _timeout_s: float = 0.0) -> None:
        """Do nothing."""

    def give_up(self) -> None:
        """Close it."""
        self.client = None


class Bench:
    """Outputs, a broker, and a loop that is driven step by step."""

    def __init__(self, *, is_id_shared: bool = False, timeout_s: float = 10.0) -> None:
        self.broker = Broker()
        self.outputs = Unacknowledged(outputs_max=100, waits=False)
        self.epoch = Epoch(TopicPartition("in", 0), 1, {})
        self.events: list[Any] = []
        self.fatal: list[Any] = []
        # What judges were asked: the output, the attempt and what takes their answer.
        self.judged: list[tuple[Any, int, Any]] = []
        # What they answer at once, if anything.
        self.answers: list[float | None] = []
        self.now_s = 0.0
        self.read_back: bool | Exception = False
        # What counts as committed, by partition.
        self.noted: dict[TopicPartition, Position] = {}
        self.held = HeldOutputs(self.outputs, self.clock)
        self.producer = Producer(self.broker)
        group: Any = SimpleNamespace(were_made=self._were_made, note=self.noted.update)
        self.loop = TransactionLoop(
            self.held,
            self.producer,  # type: ignore[arg-type]
            emit=self.events.append,
            fatal=self.fatal.append,
            on_death=self.fatal.append,
            group=group,
            is_id_shared=is_id_shared,
            busy=(),
            timeout_s=timeout_s,
        )

    def clock(self) -> float:
        """Return the time of refused outputs."""
        return self.now_s

    def judge(self, output: Output, _error: OutputRefusedError, tries: int, answer: Answer) -> None:
        """Note what is asked, as whatever made the output."""
        self.judged.append((output, tries, answer))
        if self.answers:
            answer(self.answers.pop(0))

    def _were_made(self, _positions: Any) -> bool:
        if isinstance(self.read_back, Exception):
            error, self.read_back = self.read_back, True
            raise error
        return self.read_back

    def put(
        self,
        offset: int,
        *values: bytes,
        key: bytes = b"k",
        epoch: Epoch | None = None,
        headers: Any = None,
    ) -> None:
        """Put the outputs of a call."""
        its_epoch = epoch or self.epoch
        entry = SimulatedMessage("in", its_epoch.partition.partition, offset, key), key, 1, its_epoch
        flat: list[Any] = []
        for value in values:
            flat += (self, entry, "out", value, key, headers, -1)
        self.outputs.put(entry, flat, sum(map(len, values)))

    def add(self, *offsets: int, key: bytes = b"k", epoch: Epoch | None = None) -> None:
        """Put one output of each record: its offset."""
        for offset in offsets:
            self.put(offset, b"%d" % offset, key=key, epoch=epoch)

    def request(
        self, next_offset: int, ranges: Sequence[tuple[int, int]] = (), *, bytes_max: int = 4000
    ) -> SendOffsets:
        """Return what commits a position of the epoch."""
        positions = {self.epoch.partition: position(self.epoch, next_offset, ranges, bytes_max)}
        return SendOffsets(positions, b"metadata", positions)

    def run(self, next_offset: int, ranges: Sequence[tuple[int, int]] = ()) -> KafkaError | None:
        """Carry out what commits such a position, and return its error."""
        request = self.request(next_offset, ranges)
        self.loop._carry_out(request)
        return request.error

    def take(self, next_offset: int, ranges: Sequence[tuple[int, int]] = ()) -> str:
        """Take what such a commit covers, and return it."""
        self.held.take(
            Coverage({self.epoch.partition: position(self.epoch, next_offset, ranges)}),
        )
        return b" ".join(self.held.sent[3::7]).decode()

    @property
    def visible(self) -> str:
        """What readers see, in order."""
        return b" ".join(self.broker.visible).decode()


def position(
    epoch: Epoch,
    next_offset: int,
    ranges: Sequence[tuple[int, int]] = (),
    bytes_max: int = 4000,
) -> Position:
    """Return a position whose text says as much of the ranges as fits."""
    text = encode(next_offset, NOTHING_KNOWN, tuple(ranges), None, bytes_max).text
    return Position(epoch.number, next_offset, None, text, tuple(ranges))
