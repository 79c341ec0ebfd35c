"""A record whose call failed, `Failures` whose events are kept; `TopicLetters` on producers of a script."""

from __future__ import annotations

import json
import time
from collections import deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from ehkafka.recovery.letters.topics import TopicLetters

from ehkafka.lanes.decision import Attempt
from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs import one_producer as letter_producer
from ehkafka.outputs import replacement
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.records import TopicPartition
from ehkafka.recovery.failures import Failures
from ehkafka.recovery.letters import topics as topic_letters
from ehkafka.recovery.letters.letter import Letter
from ehkafka.recovery.policy import Stop
from tests.kit.events import Events
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.outputs.one_producer import ClientCallbacks


class Bench:
    """A record whose call failed, and `Failures` that keeps what failed."""

    def __init__(self) -> None:
        self.epoch = Epoch(TopicPartition("t", 0), 1, {})
        self.attempt = self.attempt_of(SimulatedMessage("t", 0, 7, b"k", b"value"))
        self.events = Events()
        self.failures: list[Any] = []
        self.letters: list[tuple[Any, Any]] = []

    def attempt_of(self, message: Any, number: int = 1, asked: int = 0, **changed: Any) -> Attempt:
        """Return a call of the handler for a message."""
        key = changed.get("key", message.key())
        return Attempt((message, key, len(message), self.epoch), number, asked)

    def make_failures(self, **options: Any) -> Failures:
        """Return a failures, by default with the policy Stop()."""
        chosen = {"policy": Stop(), "handler": "handle", "group": "g", "chance": lambda: 0.5, **options}
        return Failures(emit=self.events.append, fatal=self.failures.append, letters=self, **chosen)

    def post(self, ticket: Any, letter: Any) -> None:
        """Be the sender of letters."""
        self.letters.append((ticket, letter))


@pytest.fixture
def bench() -> Bench:
    """Return a bench with an attempt at t[0]@7, key k."""
    return Bench()


ORIGIN = TopicPartition("t", 0)


def reported(state: str, epoch: int = 0) -> str:
    """Return statistics of librdkafka's that tell of a producer's id."""
    return json.dumps({"eos": {"idemp_state": state, "producer_epoch": epoch}})


class FakeProducer:
    """Answers each letter with the next thing of a script; acknowledges when the script is over."""

    def __init__(self, script: deque[Any], callbacks: ClientCallbacks) -> None:
        self.script = script
        self.callbacks = callbacks
        self.sent: list[bytes | None] = []
        self.keys: list[Any] = []
        self.headers: list[list[Any]] = []
        self.silent: list[Callable[..., None]] = []
        self._answers: deque[tuple[Callable[..., None], Any]] = deque()

    def produce(self, _topic: str, value: Any, key: Any, *, headers: Any, on_delivery: Any) -> None:
        """Take a letter, or raise."""
        assert isinstance(headers, list)
        answer = self.script.popleft() if self.script else None
        if isinstance(answer, Exception) and not isinstance(answer, KafkaError):
            raise answer
        self.sent.append(value)
        self.keys.append(key)
        self.headers.append(headers)
        # By type first: a KafkaError cannot be compared with a text.
        if isinstance(answer, str) and answer == "silence":
            self.silent.append(on_delivery)
        else:
            self._answers.append((on_delivery, answer))

    def poll(self, timeout_s: float) -> int:
        """Deliver reports."""
        if not self._answers:
            time.sleep(min(timeout_s, 0.002))
        while self._answers:
            on_delivery, answer = self._answers.popleft()
            if isinstance(answer, str) and answer == "fatal":
                raise KafkaException(KafkaError(KafkaError._FATAL, "lost its place", fatal=True))
            on_delivery(answer, None)
        return 0

    def purge(self, *, in_flight: bool = True) -> None:
        """Give back what nobody answered: all of it counts as on the wire."""
        if not in_flight:
            return
        purged = KafkaError(KafkaError._PURGE_QUEUE)
        self._answers.extend((on_delivery, purged) for on_delivery in self.silent)
        self.silent.clear()

    def __len__(self) -> int:
        """Return how many letters have no answer."""
        return len(self.silent) + len(self._answers)


class LetterLab:
    """Letters on fake producers, and the answers that it gave."""

    def __init__(self) -> None:
        self.script: deque[Any] = deque()
        self.producers: list[FakeProducer] = []
        self.events = Events()
        self.answers: list[tuple[int, Any]] = []
        self.deaths: list[BaseException] = []
        self.watches: list[Any] = []
        self.openings: deque[Any] = deque()
        # What each producer says of its id when it is opened.
        self.ids: deque[str] = deque()
        self.plain: list[bool] = []
        self.on_open: Callable[[ClientCallbacks], object] = lambda _callbacks: None
        self.producer = OneProducer(self.open, emit=self.events.append, make_watch=self.watch)
        self.topics = TopicLetters(self.producer, emit=self.events.append, on_death=self.deaths.append)
        self.sender = self.topics.sender("dead", self.complete)

    def open(self, callbacks: ClientCallbacks, is_plain: bool) -> Any:
        """Open a producer that has its id, or refuse."""
        if self.openings and (refusal := self.openings.popleft()) is not None:
            raise refusal
        self.producers.append(FakeProducer(self.script, callbacks))
        self.plain.append(is_plain)
        callbacks.stats_cb(self.ids.popleft() if self.ids else reported("Assigned"))
        self.on_open(callbacks)
        return self.producers[-1]

    def watch(self) -> Any:
        """Follow a credential, in words."""
        seen: list[str] = []
        watch = SimpleNamespace(
            seen=seen,
            start=lambda _client: seen.append("start"),
            apply=lambda: seen.append("apply"),
            check_now=lambda: seen.append("check"),
            stop=lambda: seen.append("stop"),
        )
        self.watches.append(watch)
        return watch

    def complete(self, ticket: Any, answer: Any) -> None:
        """Take an answer."""
        self.answers.append((ticket.number, answer))

    def post(self, number: int, *, ended: bool = False, headers: Any = ()) -> Any:
        """Post a letter; return its ticket."""
        attempt = SimpleNamespace(key=b"k", epoch=SimpleNamespace(ended=ended, number=1), number=1)
        ticket: Any = SimpleNamespace(number=number, attempt=attempt)
        self.sender.post(ticket, Letter(ORIGIN, number, b"k", b"%d" % number, list(headers)))
        return ticket

    def wait_for(self, true: Callable[[], Any]) -> None:
        """Poll with a deadline."""
        wait_until(true)


@pytest.fixture
def new_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], LetterLab]]:
    """Make `TopicLetters` whose retries and replacements come soon, not started; stop it afterwards."""
    monkeypatch.setattr(topic_letters, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(topic_letters, "IDLE_WAIT_S", 0.01)
    monkeypatch.setattr(replacement, "FIRST_S", 0.01)
    monkeypatch.setattr(letter_producer, "LAST_ANSWERS_S", 0.01)
    labs: list[LetterLab] = []

    def make() -> LetterLab:
        labs.append(LetterLab())
        return labs[-1]

    yield make
    for lab in labs:
        lab.topics.stop(1.0)


@pytest.fixture
def lab(new_lab: Callable[[], LetterLab]) -> Iterator[LetterLab]:
    """Return `TopicLetters` that have started and lives to the end."""
    lab = new_lab()
    lab.topics.start()
    yield lab
    lab.topics.stop(1.0)
    assert lab.deaths == []
