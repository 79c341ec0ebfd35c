"""The one place of a run that asks brokers, on a thread of its own: bounds of logs, ids, witnesses, commits.

The thread begins with a question and ends when there was none for a while, or with the run, without being
waited for: whatever it waits for has a bound. One question at a time. Its methods are for the poll thread;
`prove` alone waits for its answer.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.positions.client_fetches import ClientFetches
from ehkafka.positions.empty_tails import Tails, empty_tails
from ehkafka.positions.log_bounds import commits_of, known_bounds, learn_leaders
from ehkafka.positions.log_states import KnownLog
from ehkafka.positions.same_log import Recognised, judged
from ehkafka.positions.witness import recognise
from ehkafka.wording import counted, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from confluent_kafka import Consumer
    from confluent_kafka.cimpl import TopicPartition as KafkaPartition

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.positions.same_log import Judgement
    from ehkafka.positions.topic_ids import TopicIds
    from ehkafka.positions.witness import Bounds
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition

    # What a group has committed; None: that could not be read.
    Commits = Mapping[TopicPartition, KafkaPartition] | None

T = TypeVar("T")

# A run that asks nothing for so long keeps neither thread nor client: the run may be gone that would end it.
IDLE_S = 5.0
# How long the group's commits are waited for, one try after another.
_COMMITTED_S = (1.0, 2.0, 2.0)
# How long one leader is waited for, first for where its logs begin, then for where they end.
LOGS_S = 2.0
# A client that had no answer for so long is replaced: the next one has the key of that moment.
_REOPEN_S = 30.0
# The poll thread waits for a proof. One that takes longer is found the next time, if that comes soon enough.
_PROOF_S = 5.0
_PROOF_KEPT_S = 60.0


@dataclass(slots=True, eq=False)
class Question(Generic[T]):
    """A question; the asking thread writes its answer, then sets `done`.

    Until then, or where `error` says why there is none, `answer` knows nothing, or a part; who must know puts
    the question again. `find` is called on the asking thread, and `then` with what it has found.
    """

    answer: T
    find: Callable[[], T]
    then: Callable[[T], object] = lambda _answer: None
    error: KafkaException | EhkafkaError | None = None
    done: threading.Event = field(default_factory=threading.Event)
    asked_s: float = field(default_factory=time.monotonic)


class KnownLogs(NamedTuple):
    """Where logs begin and end; `problems` tells people why there is no answer."""

    logs: dict[TopicPartition, KnownLog]
    problems: dict[TopicPartition, str]


class _KeptConsumer:
    """The client that asks for bounds again and again. The asking thread's."""

    def __init__(self, open_consumer: Callable[[], Consumer]) -> None:
        self._open = open_consumer
        self._consumer: Consumer | None = None
        self._answered_s = 0.0

    def get(self) -> Consumer:
        """Return it; open it where there is none, or where this one may have outlived its key."""
        if time.monotonic() - self._answered_s > _REOPEN_S:
            self.close()
        if self._consumer is None:
            self._consumer = self._open()
            self._answered_s = time.monotonic()
        return self._consumer

    def answered(self) -> None:
        """Note that a broker answers it."""
        self._answered_s = time.monotonic()

    def close(self) -> None:
        """Close it, if there is one."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class LogAsker:
    """Answers questions one after another. `open_consumer` takes properties; what it opens joins no group."""

    def __init__(
        self,
        ids: TopicIds,
        open_consumer: Callable[..., Consumer],
        on_death: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """`on_death` is called when the thread ends by an unexpected error."""
        self.ids = ids
        self._open_consumer = open_consumer
        self._on_death = on_death
        self._questions: queue.SimpleQueue[Question[Any] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        # No question is put while the thread is about to end.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._kept = _KeptConsumer(open_consumer)  # a new one with each thread
        # Whose answer was not waited for to its end, and of which checkpoints. Poll thread.
        self._late_proof: tuple[Mapping[TopicPartition, Checkpoint], Question[Recognised]] | None = None

    def ask(
        self, facts: Mapping[TopicPartition, LogFacts], *, reads: bool = True, wants_bounds: bool = False
    ) -> Question[Recognised]:
        """Ask what the logs are recognised by that positions with these facts belong to.

        The answer comes by itself, or never once the run ends. `reads`: records are read where there are no
        ids. `wants_bounds`: it is asked where the logs begin and end that turn out to be others.
        """
        topics = {partition.topic for partition in facts}
        return self._recognise(Recognised(facts), topics, reads, "others" if wants_bounds else "none")

    def prove(self, checkpoints: Mapping[TopicPartition, Checkpoint]) -> Mapping[TopicPartition, Judgement]:
        """Return of each checkpoint whether its log is still its own. Waits for the broker, within bounds.

        Raises `EndpointError` where that cannot be found out.
        """
        late, self._late_proof = self._late_proof, None
        if late is None or late[0] != checkpoints or time.monotonic() - late[1].asked_s >= _PROOF_KEPT_S:
            found = Recognised({p: one.facts for p, one in checkpoints.items()})
            late = checkpoints, self._recognise(found, found.named(), True, "all")
        proof = late[1]
        if not proof.done.wait(_PROOF_S):
            self._late_proof = late
            raise EndpointError(
                f"The broker did not show within {seconds(_PROOF_S)} whether the mirror's offsets of "
                f"{counted(len(checkpoints), 'partition')} belong to the present logs: check the broker, "
                "then start the app again."
            )
        if isinstance(proof.error, KafkaException):
            raise EndpointError(
                f"The broker did not show whether the mirror's offsets belong to the present logs: "
                f"{describe_error(proof.error.args[0])}"
            ) from proof.error
        if proof.error is not None:
            raise proof.error
        return judged(checkpoints, proof.answer)

    def read_commits(
        self,
        partitions: Collection[TopicPartition],
        then: Callable[[Commits], object] = lambda _commits: None,
    ) -> Question[Commits]:
        """Ask what the group has committed; the answer comes by itself, as with `ask`."""
        return self._put(Question(None, lambda: self._commits(partitions), then))

    def read_tails(self, tails: Mapping[TopicPartition, tuple[int, int]]) -> Question[Tails]:
        """Ask which logs have no record from one offset up to another; the answer comes by itself."""
        return self._put(Question(Tails(tails), lambda: self._tails(tails)))

    def read_logs(self, groups: Sequence[Collection[TopicPartition]]) -> Question[KnownLogs]:
        """Ask where logs begin and end; the answer comes by itself.

        Those of a group have the same leader, so that one that is silent hides no other's answer.
        """
        found = KnownLogs({}, {})
        return self._put(Question(found, lambda: self._logs(groups, found)))

    def stop(self) -> None:
        """End the thread within a moment. Without waiting for it."""
        self._stopping.set()
        self._questions.put(None)

    def _put(self, question: Question[T]) -> Question[T]:
        with self._lock:
            self._questions.put(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="ehkafka-log", daemon=True)
                self._thread.start()
        return question

    def _main(self) -> None:
        kept = self._kept = _KeptConsumer(self._open_consumer)
        try:
            while (question := self._next()) is not None:
                try:
                    question.answer = question.find()
                    question.then(question.answer)
                except (KafkaException, EhkafkaError) as error:
                    # Such as a key or token that is not to be had now. The consumer tells of that itself.
                    question.error = error
                finally:
                    question.done.set()
        except BaseException as error:  # a caller must not wait for a thread that is gone
            self.ids.close()
            self._on_death(error)
        finally:
            kept.close()

    def _next(self) -> Question[Any] | None:
        """Wait for a question; None: it is time to end. The client goes before another thread may begin."""
        try:
            question = self._questions.get(timeout=IDLE_S)
        except queue.Empty:
            question = None
        with self._lock:
            if question is None and not self._questions.empty():
                question = self._questions.get()
            if self._stopping.is_set():
                question = None
            if question is None:
                self.ids.close()
                self._thread = None
        return question

    def _recognise(
        self, found: Recognised, topics: Collection[str], reads: bool, bounds: Bounds
    ) -> Question[Recognised]:
        if found.named():
            self.ids.are_known = True

        def find() -> Recognised:
            should_end = self._stopping.is_set
            found.ids = self.ids.ask(topics, should_end=should_end)
            return recognise(
                found,
                lambda: closing(self._open_consumer()),
                reads=reads,
                bounds=bounds,
                should_end=should_end,
            )

        return self._put(Question(found, find))

    def _commits(self, partitions: Collection[TopicPartition]) -> Commits:
        with closing(self._open_consumer()) as consumer:
            for timeout_s in _COMMITTED_S:
                if self._stopping.is_set():
                    break
                # In short pieces, because the run does not wait for a thread that is to end.
                with suppress(KafkaException):
                    return commits_of(consumer, partitions, timeout_s)
        return None

    def _tails(self, tails: Mapping[TopicPartition, tuple[int, int]]) -> Tails:
        fetches = ClientFetches()
        with closing(self._open_consumer(fetches.properties)) as consumer:
            return empty_tails(consumer, tails, fetches, should_end=self._stopping.is_set)

    def _logs(self, groups: Sequence[Collection[TopicPartition]], found: KnownLogs) -> KnownLogs:
        for group in groups:
            if self._stopping.is_set():
                break
            asked_s = time.monotonic()
            try:
                answers = known_bounds(self._kept.get(), group, LOGS_S)
            except (KafkaException, EhkafkaError) as error:
                why = describe_error(error.args[0]) if isinstance(error, KafkaException) else str(error)
                found.problems.update(dict.fromkeys(group, why))
            else:
                self._kept.answered()
                for partition, answer in answers.items():
                    if isinstance(answer, KafkaError):
                        found.problems[partition] = describe_error(answer)
                    else:
                        found.logs[partition] = KnownLog(*answer, asked_s)
            if not found.problems.keys().isdisjoint(group):
                with suppress(EhkafkaError):  # such as a key that is not to be had now
                    learn_leaders(self._kept.get(), LOGS_S)
        return found
