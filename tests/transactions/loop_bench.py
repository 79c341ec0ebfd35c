"""A bench for transactions: a client that a test scripts, and a loop whose transactions it carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from ehkafka.outputs.claim import Claim, Output, SingleOutput

from ehkafka.lanes.epoch import Epoch
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import NOTHING_KNOWN, encode
from ehkafka.records import TopicPartition
from ehkafka.transactions.book import TransactionBook
from ehkafka.transactions.loop import Request, TransactionLoop
from ehkafka.transactions.refusals import Refusals
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Outlet:
    """Where all of it goes."""

    topic = "out"


OUTLET: Any = _Outlet()
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


class Report:
    """What a report says of a message."""

    def __init__(self, topic: str, key: bytes, value: bytes) -> None:
        self._parts = topic, key, value

    def topic(self) -> str:
        """Return where it was to go."""
        return self._parts[0]

    def key(self) -> bytes:
        """Return its key."""
        return self._parts[1]

    def value(self) -> bytes:
        """Return its value."""
        return self._parts[2]


class Client:
    """A transactional producer whose calls fail as `fails` says, each entry once; None: that one works."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.open: list[bytes] = []
        self.offsets: Any = None
        self._reports: list[tuple[Any, KafkaError | None, Report]] = []

    def __len__(self) -> int:
        return len(self._reports)

    def init_transactions(self, _timeout: float) -> None:
        """Have an earlier one's transaction ended."""
        self._broker.call("init")

    def begin_transaction(self) -> None:
        """Begin one."""
        self._broker.call("begin")
        self.open, self.offsets = [], None

    def produce_batch(self, topic: str, messages: list[dict[str, Any]], on_delivery: Any) -> int:
        """Take messages of one topic; one that is refused takes all of them along."""
        self._broker.call("produce")
        refused = any(one["value"] in self._broker.refuses for one in messages)
        error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE) if refused else None
        for one in messages:
            self.open.append(one["value"])
            self._reports.append((on_delivery, error, Report(topic, one["key"], one["value"])))
        return len(messages)

    def produce(
        self, topic: str, value: bytes, key: bytes, _partition: int, on_delivery: Any, **_given: Any
    ) -> None:
        """Take one message."""
        self.produce_batch(topic, [{"key": key, "value": value}], on_delivery)

    def poll(self, _timeout: float = 0.0) -> int:
        """Tell of errors; of what was taken only to whoever tries single ones."""
        reports, self._reports = self._reports, []
        for tell, error, report in reports:
            if error is not None or self._broker.reports_all:
                tell(error, report)
        return len(reports)

    def purge(self, **_what: Any) -> None:
        """Drop what is not sent."""
        self._reports.clear()

    def send_offsets_to_transaction(self, offsets: Any, metadata: bytes, _timeout: float) -> None:
        """Take the group's offsets."""
        self.poll()
        self._broker.call("offsets")
        self.offsets = (offsets, metadata)

    def commit_transaction(self, _timeout: float) -> None:
        """Let all be seen."""
        if any(value in self._broker.refuses for value in self.open):
            self.poll()
            raise aborting(KafkaError.MSG_SIZE_TOO_LARGE)
        self._broker.call("commit")
        self._broker.visible += self.open
        self._broker.committed.append({(one.partition, one.offset) for one in self.offsets[0]})

    def abort_transaction(self, _timeout: float) -> None:
        """Drop all."""
        self.poll()
        self._broker.call("abort")
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
        self.refuses: set[bytes] = set()
        self.reports_all = False
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

    def __init__(self, broker: Broker, *, careful: bool = False) -> None:
        self._broker = broker
        self._careful = careful
        self._client: Client | None = None
        self.has_lost_brokers = False
        self.opened = 0

    @property
    def client(self) -> Client | None:
        """The one of the moment."""
        self._broker.reports_all = self._careful
        return self._client

    def start(self, *, timeout_s: float = 0.0) -> None:
        """Open one."""
        assert timeout_s >= 0
        self.opened += 1
        self.has_lost_brokers = False
        client = Client(self._broker)
        client.init_transactions(timeout_s)
        self._client = client

    def start_app(self) -> None:
        """Open the first one."""
        self.start()

    def serve(self, _timeout_s: float = 0.0) -> None:
        """Do nothing."""

    def give_up(self) -> None:
        """Close it."""
        self._client = None


class Bench:
    """A book, a broker, and a loop that is driven step by step."""

    def __init__(self, *, is_id_shared: bool = False, timeout_s: float = 10.0) -> None:
        self.broker = Broker()
        self.book = TransactionBook()
        self.epoch = Epoch(TopicPartition("in", 0), 1, {})
        self.events: list[Any] = []
        self.fatal: list[Any] = []
        # What judges were asked: the output, the attempt and what takes their answer.
        self.judged: list[tuple[Any, int, Any]] = []
        self.now_s = 0.0
        self.read_back: bool | Exception = False
        self.refusals = Refusals(
            {OUTLET: lambda output, _why, tries, answer: self.judged.append((output, tries, answer))},
            clock=lambda: self.now_s,
            refuse_letter=lambda letter, error: self.fatal.append((letter, error)),
        )
        self.producer, self.trial = Producer(self.broker), Producer(self.broker, careful=True)
        self.loop = TransactionLoop(
            self.book,
            self.producer,  # type: ignore[arg-type]
            self.trial,  # type: ignore[arg-type]
            self.refusals,
            emit=self.events.append,
            fatal=self.fatal.append,
            on_death=self.fatal.append,
            was_committed=self._was_committed,
            is_id_shared=is_id_shared,
            busy=(),
            timeout_s=timeout_s,
        )

    def _was_committed(self, _positions: Any) -> bool:
        if isinstance(self.read_back, Exception):
            error, self.read_back = self.read_back, True
            raise error
        return self.read_back

    def add(self, *offsets: int, epoch: Epoch | None = None, key: bytes = b"k") -> None:
        """Add the plain output of each record: its offset."""
        its_epoch = epoch or self.epoch
        for offset in offsets:
            message = SimulatedMessage("in", its_epoch.partition.partition, offset, key)
            self.book.add_plain((OUTLET, its_epoch, message, key, b"%d" % offset, None))

    def add_claimed(self, offset: int, *values: bytes, epoch: Epoch | None = None) -> Claim:
        """Add what a call sends that sends several."""
        its_epoch = epoch or self.epoch
        message = SimulatedMessage("in", its_epoch.partition.partition, offset, b"k")
        claim = Claim(OUTLET, ((its_epoch, offset),), message, 1)
        self.book.add(claim, [Output(claim, "out", value, b"k", None, -1, len(value)) for value in values])
        return claim

    def add_single(self, offset: int, value: bytes, headers: Any = None) -> None:
        """Add one that is not plain."""
        message = SimulatedMessage("in", 0, offset, b"k")
        single = SingleOutput(OUTLET, self.epoch, message, "out", value, b"k", headers, len(value))
        self.book.add_single(single)

    def request(
        self, next_offset: int, ranges: Sequence[tuple[int, int]] = (), *, bytes_max: int = 4000
    ) -> Request:
        """Return what commits a position of the epoch."""
        positions = {self.epoch.partition: position(self.epoch, next_offset, ranges, bytes_max)}
        return Request(positions, b"metadata", positions)

    def run(self, next_offset: int, ranges: Sequence[tuple[int, int]] = ()) -> KafkaError | None:
        """Carry a transaction out, and return its error."""
        request = self.request(next_offset, ranges)
        self.loop._carry_out(request)
        return request.error

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
