"""A batch on its way without a process: its child says what a test wants, and its inbox is real."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ehkafka.headers.size import sizes_of
from ehkafka.lanes.decision import HoldHead
from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.outputs.unacknowledged import NotSentError
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from ehkafka.workers.processes import wire
from ehkafka.workers.processes.failure import pack_error
from ehkafka.workers.processes.inbox import ChildInbox
from ehkafka.workers.processes.run import BatchRun
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class PlayedCall:
    """What one call sends."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def add(self, made: Any, _message: Any) -> None:
        """Keep it."""
        self.made += made


class Posts:
    """Stands for outlet and deferrals: notes what is put for which record."""

    before_next = False

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.refused: set[int] = set()
        self.awaited: set[int] = set()
        self._calls: dict[int, PlayedCall] = {}
        # Called before outputs are put, in place of a wait for room.
        self.wait: Callable[[], object] = lambda: None

    @contextmanager
    def begin(self, entry: Any) -> Iterator[None]:
        """Put what is sent for a record within the block, unless it fails."""
        call = PlayedCall()
        offset = entry[MESSAGE].offset()
        self._calls[offset] = call
        yield
        if call.made:
            self.wait()
            if offset in self.refused:
                raise NotSentError("gone")
            self.sent += [(offset, one) for one in call.made]

    def call_of(self, message: Any) -> PlayedCall:
        """Return the call of a record."""
        return self._calls[message.offset()]

    def awaits(self, attempt: Any) -> Any:
        """Return how its record waits."""
        return HoldHead("waits") if attempt.message.offset() in self.awaited else None


class PlayedChild:
    """Stands for a link to a child: what it says at each look, and how many permits it leaves."""

    pid = 7

    def __init__(self, says: list[list[wire.Word]], leaves: int = 0) -> None:
        self.says = says
        self._leaves = leaves
        self.steps: list[str] = []
        self.is_gone = self.is_dead = False
        self.given: Any = None

    def send(self, _kind: str, records: Any, _followed: Any) -> None:
        """Take a batch."""
        self.given = records

    def receive(self, wait_s: float) -> list[wire.Word]:
        """Say the next thing."""
        self.steps.append("wait" if wait_s else "read")
        words = self.says.pop(0) if self.says else []
        self.is_gone = self.is_dead and not (words or self.says)
        return words

    def offer(self, _records: int) -> None:
        """Take the permits on a batch: what the child leaves of them is given."""

    def left(self) -> int:
        """Return how many permits are left."""
        return self._leaves

    def take(self, _records: int = 1) -> int:
        """Give them back."""
        if self._leaves:
            self.steps.append("permits")
        found, self._leaves = self._leaves, 0
        return found

    def kill(self) -> None:
        """End it."""
        self.steps.append("kill")

    def bury(self) -> str:
        """Say how it ended."""
        return "signal SIGKILL"


class Played:
    """A pool of one played child, whose failures hold their records; `run` sees a batch to its end."""

    name = "played"
    deadline_s: float | None = None
    batch_s = 0.0
    is_given_up = False
    history: Any = None

    def __init__(self, records: str, **inboxes: Any) -> None:
        """`records`: a letter for the key and a number for the offset each."""
        self.settings = self.options = self
        self.posts = self.outlet = self.deferrals = Posts()
        self.time_s = 0.0
        self.failures: list[tuple[int, BaseException]] = []
        self.deaths: list[bool] = []
        self.hub = Hub(Inboxes(1, make_inbox=ChildInbox, **inboxes), lambda: 0.0)
        self.epoch = self.hub.inboxes.assign(TopicPartition("t", 0), 1)
        self.receive(records)

    @property
    def inbox(self) -> ChildInbox:
        """The one inbox."""
        (inbox,) = self.hub.inboxes.inboxes
        assert isinstance(inbox, ChildInbox)
        return inbox

    def receive(self, records: str, keys: Any = None) -> None:
        """Take records in; their keys are their own unless given."""
        batch = [SimulatedMessage("t", 0, int(one[1:]), one[0].encode(), b"") for one in records.split()]
        self.hub.receive([(self.epoch, batch, keys or [one.key() for one in batch], (), sizes_of(batch))])

    def run(self, child: PlayedChild, records_max: int = 100) -> tuple[int, float]:
        """Give the child what waits; a batch that is looked at has always taken too long."""
        with self.hub.locked():
            self.inbox.permits = child  # type: ignore[assignment]
            entries = self.inbox.take(records_max, 1 << 20, one_of_a_key=False)
        return BatchRun(self, child, self.inbox, entries).run()  # type: ignore[arg-type]

    def waiting(self) -> list[int]:
        """The offsets that wait for a consumer."""
        return [entry[MESSAGE].offset() for entry in self.inbox.q]

    def held(self) -> list[list[int]]:
        """The offsets of each key that was taken over."""
        return [[entry[MESSAGE].offset() for entry in held.q] for held in self.hub.inboxes.waiting.held]

    def unfinished(self) -> list[int]:
        """The offsets that are not finished."""
        with self.hub.locked():
            return [entry[MESSAGE].offset() for entry in self.epoch.unfinished()]

    def now_s(self) -> float:
        """Return the time that a test gives."""
        return self.time_s

    def on_failure(self, attempt: Any, error: BaseException) -> HoldHead:
        """Hold the record."""
        self.failures.append((attempt.message.offset(), error))
        return HoldHead("held")

    def emit(self, died: Any) -> None:
        """Note that a child has died."""
        self.deaths.append(died.was_running)


def sent(place: int, *values: str) -> wire.Word:
    """Return the word that a record has sent."""
    return wire.ENDED, place, list(values or (str(place),)), None


def failed(place: int) -> wire.Word:
    """Return the word that a record has failed."""
    return wire.ENDED, place, [], pack_error(ValueError("no luck"))


def done(started: int) -> wire.Word:
    """Return the word that a batch has ended."""
    return wire.DONE, started, 0.0
