"""A transactional producer as librdkafka has it, on a simulated network.

Each call is a request of its own that goes on when the call has timed out: who calls again waits for the same
answer. Outputs wait in the client until something flushes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from ehkafka.records import TopicPartition
from tests.kit.simulated.outputs import SentOutput
from tests.kit.simulated.transactions import CONCURRENT, FENCED, Membership

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.kit.simulated.side_thread import SideThread
    from tests.kit.simulated.transactional_member import TransactionalMember

    # What reaches the broker; returns its error, or None.
    Arrive = Callable[[], int | None]

# It teaches nothing of other outputs.
REFUSED = 44
TOO_LARGE = 10
COORDINATOR_LOADING = 14
LOST_ID = 49
_AGAIN_S = 0.02


class _Request:
    """One on its way. `error` counts once `is_answered`."""

    def __init__(self) -> None:
        self.is_answered = False
        self.error: KafkaError | None = None


class _Report:
    """What a report tells of an output."""

    def __init__(self, topic: str, key: bytes | None, value: bytes, reported: Any) -> None:
        self._topic, self._key, self._value = topic, key, value
        self.reported = reported
        self.output = SentOutput.read(key, value)

    def topic(self) -> str:
        """Return where it went."""
        return self._topic

    def key(self) -> bytes | None:
        """Return its key."""
        return self._key

    def value(self) -> bytes:
        """Return its payload."""
        return self._value


class SimulatedTransactional:
    """One client of one member."""

    def __init__(
        self,
        member: TransactionalMember,
        side: SideThread,
        name: str,
        reported: Callable[[KafkaError, _Report], None],
        limit: Mapping[str, int],
    ) -> None:
        self._world = world = member.world
        # For a mutant that takes the group's metadata late.
        self.metadata_now = member.consumer_group_metadata
        self._broker = world.transactions
        self._rng = world.transactions.rng
        self._side = side
        self._name = name
        self._reported = reported
        self._limit = limit
        self._epoch = -1
        self._fatal: KafkaError | None = None
        # An output was refused, so the transaction can only be aborted.
        self._must_abort = False
        self._buffer: list[_Report] = []
        self._requests: dict[str, _Request] = {}
        self._last_arrival_s = 0.0
        self._is_given_up = False

    def __len__(self) -> int:
        return len(self._buffer)

    def purge(self) -> None:
        """Take back what waits."""
        self._is_given_up = True
        self._drop()

    def _drop(self) -> None:
        buffer, self._buffer = self._buffer, []
        for report in buffer:
            report.reported(KafkaError(KafkaError._PURGE_QUEUE), report)

    def poll(self, _timeout_s: float = 0.0) -> int:
        """Let things happen, and perhaps outputs go."""
        if self._fatal is None and not self._is_given_up and self._rng.random() < 0.3:
            # Many outputs must fit into the transaction's time, in the end.
            if not self._world.calm:
                self._seam()
            self._flush()
        return 0

    # Outputs.

    def produce(
        self, topic: str, value: Any, key: Any, _partition: int, on_delivery: Any = None, **_given: Any
    ) -> None:
        """Take an output."""
        self._check_abortable()
        if len(self._buffer) > 20 and self._rng.random() < 0.1:
            raise BufferError
        self._buffer.append(_Report(topic, key, value, on_delivery or self._reported))
        self.poll()

    def _flush(self) -> None:
        buffer, self._buffer = self._buffer, []
        # Outputs go in requests, each of which the broker takes or refuses as a whole.
        size = min(self._rng.choice([1, 2, 50]), self._limit.get("batch.num.messages", 50))
        for start in range(0, len(buffer), size):
            request = buffer[start : start + size]
            if self._fatal is not None or self._must_abort:
                error: KafkaError | None = KafkaError(KafkaError._PURGE_INFLIGHT)
            elif any(self._broker.refuses(report.output) for report in request):
                error = KafkaError(REFUSED)
                self._must_abort = True
            elif self._broker.is_too_large(sum(len(report.value()) for report in request), len(request)):
                error = KafkaError(TOO_LARGE)
                self._must_abort = True
            else:
                error = self._append(request)
            if error is not None:
                for report in request:
                    report.reported(error, report)

    def _append(self, request: Sequence[_Report]) -> KafkaError | None:
        for report in request:
            output = report.output
            while (refusal := self._broker.append(self._name, self._epoch, output)) == CONCURRENT:
                self._side.sleep(_AGAIN_S)
            if refusal is not None:
                self._fatal = KafkaError(refusal, "", True)
                return self._fatal
        return None

    # Transactions.

    def init_transactions(self, timeout_s: float) -> None:
        """Get an epoch."""

        def arrive() -> int | None:
            epoch = self._broker.init(self._name)
            if epoch is None:
                return CONCURRENT
            self._epoch = epoch
            return None

        self._call("init", arrive, timeout_s)

    def begin_transaction(self) -> None:
        """Begin one."""
        self._check_fatal()
        self._must_abort = False
        self._seam()

    def send_offsets_to_transaction(self, offsets: Any, metadata: bytes, timeout_s: float) -> None:
        """Add the group's offsets."""
        of = Membership.read(metadata)
        stored: dict[TopicPartition, tuple[int, str | None]] = {
            TopicPartition(one.topic, one.partition): (one.offset, one.metadata or None) for one in offsets
        }
        self._check_abortable()
        self._seam()
        self._call(
            "offsets",
            lambda: self._broker.add_offsets(self._name, self._epoch, of, stored),
            timeout_s,
        )

    def commit_transaction(self, timeout_s: float) -> None:
        """Deliver what waits, and commit."""
        self._check_fatal()
        if "commit" not in self._requests:
            self._flush()
            self._seam()
            self._check_abortable()
        epoch = self._epoch
        self._call("commit", lambda: self._broker.end(self._name, epoch, commits=True), timeout_s)

    def abort_transaction(self, timeout_s: float) -> None:
        """Take all back."""
        self._check_fatal()
        self._drop()
        for other in ("offsets", "commit"):
            self._requests.pop(other, None)
        self._call("abort", lambda: self._broker.end(self._name, self._epoch, commits=False), timeout_s)
        self._must_abort = False

    def _check_fatal(self) -> None:
        if self._fatal is not None:
            raise KafkaException(self._fatal)

    def _check_abortable(self) -> None:
        self._check_fatal()
        if self._must_abort:
            raise KafkaException(KafkaError(KafkaError._STATE, "an output failed", False, False, True))

    # The network.

    def _seam(self) -> None:
        """Let others go on in between, at most of the moments where that counts."""
        if self._rng.random() < 0.5:
            self._side.sleep(self._network_s())

    def _network_s(self) -> float:
        plan = self._world.plan
        is_slow = not self._world.calm and self._rng.random() < plan.slow_request_share
        return self._rng.uniform(0.3, 3.0) if is_slow else self._rng.expovariate(1 / plan.network_s)

    def _call(self, kind: str, arrive: Arrive, timeout_s: float) -> None:
        request = self._requests.get(kind)
        if request is None:
            request = self._requests[kind] = _Request()
            self._send(kind, request, arrive)
        ends_s = self._world.clock.now_s() + timeout_s
        while not request.is_answered:
            left_s = ends_s - self._world.clock.now_s()
            if left_s <= 1e-9:
                if kind == "commit":
                    self._delay(arrive)
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, kind, False, True))
            self._side.sleep(left_s)
        del self._requests[kind]
        error = request.error
        if error is not None:
            if error.fatal():
                self._fatal = error
            raise KafkaException(error)

    def _delay(self, arrive: Arrive) -> None:
        """Let a copy of a request arrive late: the client has sent it on two connections (KIP-890)."""
        if not self._world.calm and self._rng.random() < self._world.plan.slow_request_share:
            self._broker.seen["delayed requests"] += 1
            self._world.clock.call_after(self._rng.uniform(0.0, 2.0), arrive)

    def _send(self, kind: str, request: _Request, arrive: Arrive) -> None:
        clock, plan, rng = self._world.clock, self._world.plan, self._rng
        faulty = not self._world.calm
        is_lost = faulty and kind in {"offsets", "commit"} and rng.random() < plan.producer_lost_share
        # The client has lost its id, before or after the broker heard of it.
        if is_lost and rng.random() < 0.5:
            clock.call_after(self._network_s(), lambda: self._answer(request, LOST_ID))
            return
        arrives_s = max(clock.now_s() + self._network_s(), self._last_arrival_s)
        self._last_arrival_s = arrives_s
        is_busy = faulty and kind == "offsets" and rng.random() < plan.commit_error_share

        def reach() -> None:
            code = COORDINATOR_LOADING if is_busy else arrive()
            if code == CONCURRENT:
                # Said again by the client, if that still wants it.
                if request is self._requests.get(kind):
                    clock.call_after(_AGAIN_S, reach)
                return
            answered = LOST_ID if is_lost else code
            clock.call_after(self._network_s(), lambda: self._answer(request, answered))

        clock.call_at(arrives_s, reach)

    def _answer(self, request: _Request, code: int | None) -> None:
        if code is not None:
            is_fatal = code in {FENCED, LOST_ID}
            is_busy = code == COORDINATOR_LOADING
            request.error = KafkaError(code, "", is_fatal, is_busy, not (is_fatal or is_busy))
        request.is_answered = True
        self._side.wake()
