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
from typing import TYPE_CHECKING, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.positions.client_fetches import ClientFetches
from ehkafka.positions.empty_tails import empty_tails
from ehkafka.positions.log_book import KnownLog
from ehkafka.positions.log_bounds import known_bounds, learn_leaders, log_bounds
from ehkafka.positions.same_log import disproof
from ehkafka.positions.witness import READ_S, prove, read_witnesses
from ehkafka.records import TopicPartition
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from confluent_kafka import Consumer

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.positions.gap import LogBounds
    from ehkafka.positions.same_log import Judgement, Reading
    from ehkafka.positions.topic_ids import TopicIds
    from ehkafka.progress.metadata import LogFacts


# A run that asks nothing for so long keeps neither thread nor client: nobody may be left who would end it.
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


@dataclass(slots=True, kw_only=True)
class _Asked:
    """A question; the asking thread writes its answer, then sets `done`.

    `error` is why there is none; who must know puts the question again.
    """

    error: KafkaException | EhkafkaError | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class _Proof(_Asked):
    """Checkpoints that a mirror's start depends on."""

    checkpoints: Mapping[TopicPartition, Checkpoint]
    judgements: Mapping[TopicPartition, Judgement] = field(default_factory=dict)
    asked_s: float = field(default_factory=time.monotonic)


@dataclass(slots=True)
class Question(_Asked):
    """What positions belong to by their facts, and, once `done`, what the broker said of their logs.

    The asking thread writes `ids`, then sets `has_ids`; writes `readings`, then sets `done`.
    """

    facts: Mapping[TopicPartition, LogFacts]
    # Whether records are read where there are no ids.
    reads: bool = True
    ids: Mapping[str, bytes] = field(default_factory=dict)
    readings: Mapping[TopicPartition, Reading] = field(default_factory=dict)
    # Whether it is asked where the logs begin and end that turn out to be others.
    wants_bounds: bool = False
    bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    has_ids: threading.Event = field(default_factory=threading.Event)

    def unproved(self) -> dict[TopicPartition, int]:
        """Return the witnesses' offsets of those whom no id can tell from others."""
        return {
            partition: facts.witness[0]
            for partition, facts in self.facts.items()
            if facts.witness is not None and (facts.topic_id is None or partition.topic not in self.ids)
        }

    def disproof(self, partition: TopicPartition) -> str | None:
        """Return why a partition's position belongs to another log, None where nothing says so."""
        topic_id, reading = self.ids.get(partition.topic), self.readings.get(partition)
        return disproof(self.facts[partition], topic_id, reading)


@dataclass(slots=True)
class CommitsQuestion(_Asked):
    """What the group has committed; None: that could not be read."""

    partitions: Collection[TopicPartition]
    commits: Mapping[TopicPartition, KafkaPartition] | None = None


@dataclass(slots=True)
class TailQuestion(_Asked):
    """Which logs have no record from a position up to an end. `broken`: see `Tails`."""

    tails: Mapping[TopicPartition, tuple[int, int]]
    empty: Collection[TopicPartition] = ()
    broken: Collection[TopicPartition] = ()


@dataclass(slots=True)
class LogsQuestion(_Asked):
    """Where logs begin and end.

    Those of a group have the same leader, so that one that is silent hides no other's answer.
    """

    groups: Sequence[Collection[TopicPartition]]
    logs: dict[TopicPartition, KnownLog] = field(default_factory=dict)
    # Why there is no answer, for people.
    problems: dict[TopicPartition, str] = field(default_factory=dict)

    def take(self, answers: Mapping[TopicPartition, LogBounds | KafkaError], at_s: float) -> None:
        """Take what a leader has answered to what it was asked at that moment."""
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                self.problems[partition] = describe_error(answer)
            else:
                self.logs[partition] = KnownLog(*answer, at_s)


T = TypeVar("T", bound=_Asked)


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
        """`on_death` is called when the thread ends by an error that nobody expected."""
        self.ids = ids
        self._open_consumer = open_consumer
        self._on_death = on_death
        self._questions: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        # Nobody puts a question while the thread is about to end.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # Whose answer was not waited for to its end. Poll thread.
        self._late_proof: _Proof | None = None

    def ask(
        self, facts: Mapping[TopicPartition, LogFacts], *, reads: bool = True, wants_bounds: bool = False
    ) -> Question:
        """Put a question; its answer comes by itself, or never once the run ends."""
        if any(one.topic_id is not None for one in facts.values()):
            self.ids.are_known = True
        return self._put(Question(facts, reads, wants_bounds=wants_bounds))

    def prove(self, checkpoints: Mapping[TopicPartition, Checkpoint]) -> Mapping[TopicPartition, Judgement]:
        """Return of each checkpoint whether its log is still its own. Waits for the broker, within bounds.

        Raises `EndpointError` where that cannot be found out.
        """
        if any(one.topic_id is not None for one in checkpoints.values()):
            self.ids.are_known = True
        proof, self._late_proof = self._late_proof, None
        is_kept = proof is not None and time.monotonic() - proof.asked_s < _PROOF_KEPT_S
        if proof is None or not is_kept or proof.checkpoints != checkpoints:
            proof = self._put(_Proof(checkpoints=checkpoints))
        if not proof.done.wait(_PROOF_S):
            self._late_proof = proof
            raise EndpointError(
                f"Whether {len(checkpoints)} logs are the mirror's was not known within {seconds(_PROOF_S)}."
            )
        if isinstance(proof.error, KafkaException):
            raise EndpointError(
                f"Whether the log is the mirror's could not be read: {describe_error(proof.error.args[0])}"
            ) from proof.error
        if proof.error is not None:
            raise proof.error
        return proof.judgements

    def read_commits(self, partitions: Collection[TopicPartition]) -> CommitsQuestion:
        """Ask what the group has committed; the answer comes by itself, as with `ask`."""
        return self._put(CommitsQuestion(partitions))

    def read_tails(self, tails: Mapping[TopicPartition, tuple[int, int]]) -> TailQuestion:
        """Ask which logs have no record from one offset up to another; the answer comes by itself."""
        return self._put(TailQuestion(tails))

    def read_logs(self, groups: Sequence[Collection[TopicPartition]]) -> LogsQuestion:
        """Ask where logs begin and end, by leader; the answer comes by itself."""
        return self._put(LogsQuestion(groups))

    def stop(self) -> None:
        """End the thread within a moment. Without waiting for it."""
        self._stopping.set()
        self._questions.put(None)

    def _put(self, question: T) -> T:
        with self._lock:
            self._questions.put(question)
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="ehkafka-log", daemon=True)
                self._thread.start()
        return question

    def _main(self) -> None:
        kept = _KeptConsumer(self._open_consumer)
        try:
            while (question := self._next()) is not None:
                try:
                    self._answer(question, kept)
                except (KafkaException, EhkafkaError) as error:
                    # Such as a key or token that is not to be had now. The consumer tells of that itself.
                    question.error = error
                finally:
                    question.done.set()
        except BaseException as error:  # whoever waits must not wait for a thread that is gone
            self.ids.close()
            self._on_death(error)
        finally:
            kept.close()

    def _answer(self, question: _Asked, kept: _KeptConsumer) -> None:
        if isinstance(question, Question):
            self._recognise(question)
        elif isinstance(question, CommitsQuestion):
            self._read_commits(question)
        elif isinstance(question, TailQuestion):
            self._read_tails(question)
        elif isinstance(question, LogsQuestion):
            self._read_logs(question, kept)
        elif isinstance(question, _Proof):
            self._prove(question)

    def _next(self) -> _Asked | None:
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

    def _prove(self, proof: _Proof) -> None:
        topics = {p.topic for p, one in proof.checkpoints.items() if one.topic_id is not None}
        ids = self.ids.ask(topics, should_end=self._stopping.is_set)
        with closing(self._open_consumer()) as consumer:
            proof.judgements = prove(consumer, proof.checkpoints, ids)

    def _recognise(self, question: Question) -> None:
        topics = {partition.topic for partition in question.facts}
        try:
            question.ids = self.ids.ask(topics, should_end=self._stopping.is_set)
        finally:
            question.has_ids.set()
        question.readings = self._read(question.unproved() if question.reads else {})
        if question.wants_bounds:
            question.bounds = self._bounds([p for p in question.facts if question.disproof(p) is not None])

    def _read_commits(self, question: CommitsQuestion) -> None:
        asked = [KafkaPartition(*partition) for partition in question.partitions]
        with closing(self._open_consumer()) as consumer:
            answers = self._committed(consumer, asked)
        if answers and not any(answer.error for answer in answers):
            question.commits = {TopicPartition(a.topic, a.partition): a for a in answers if a.offset >= 0}

    def _read_tails(self, question: TailQuestion) -> None:
        fetches = ClientFetches()
        with closing(self._open_consumer(fetches.properties)) as consumer:
            question.empty, question.broken = empty_tails(
                consumer, question.tails, fetches, should_end=self._stopping.is_set
            )

    def _read_logs(self, question: LogsQuestion, kept: _KeptConsumer) -> None:
        for group in question.groups:
            if self._stopping.is_set():
                break
            asked_s = time.monotonic()
            try:
                question.take(known_bounds(kept.get(), group, LOGS_S), asked_s)
            except (KafkaException, EhkafkaError) as error:
                why = describe_error(error.args[0]) if isinstance(error, KafkaException) else str(error)
                question.problems |= dict.fromkeys(group, why)
            else:
                kept.answered()
            if not question.problems.keys().isdisjoint(group):
                self._learn_leaders(kept)

    @staticmethod
    def _learn_leaders(kept: _KeptConsumer) -> None:
        with suppress(EhkafkaError):  # such as a key that is not to be had now
            learn_leaders(kept.get(), LOGS_S)

    def _committed(self, consumer: Consumer, asked: list[KafkaPartition]) -> list[KafkaPartition]:
        for timeout_s in _COMMITTED_S:
            if self._stopping.is_set():
                break
            try:
                return consumer.committed(asked, timeout=timeout_s)
            except KafkaException:
                continue  # in short pieces, because nobody waits for a thread that is to end
        return []

    def _bounds(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogBounds]:
        if not partitions or self._stopping.is_set():
            return {}
        with closing(self._open_consumer()) as consumer:
            return log_bounds(consumer, partitions, READ_S)

    def _read(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Reading]:
        if not offsets or self._stopping.is_set():
            return {}
        with closing(self._open_consumer()) as consumer:
            return read_witnesses(consumer, offsets, should_end=self._stopping.is_set)
