"""Asks whose log it is, on a thread of its own: the topics' ids, and where there are none, the witnesses.

The thread begins with the first question and ends with the run, without being waited for: whatever it waits
for has a bound. One question at a time. `ask` and `prove` are for the poll thread: the first blocks nobody,
the second waits for its answer.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import describe_error
from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.intake.topic_ids import ASK_S
from ehkafka.intake.witness import READ_S, prove, read_witnesses

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Consumer

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from ehkafka.intake.same_log import Judgement, Reading
    from ehkafka.intake.topic_ids import TopicIds
    from ehkafka.progress.metadata import LogFacts
    from ehkafka.records import TopicPartition


# Ids and records are waited for one after the other, and a question before this one may be busy with both.
_PROOF_S = 2 * (ASK_S + READ_S)


@dataclass(slots=True)
class _Proof:
    """Checkpoints that a mirror's start depends on; `done` when `judgements` or `error` is there."""

    checkpoints: Mapping[TopicPartition, Checkpoint]
    judgements: Mapping[TopicPartition, Judgement] = field(default_factory=dict)
    error: KafkaException | EhkafkaError | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(slots=True)
class Question:
    """What positions belong to by their facts, and, once `done`, what the broker said of their logs.

    The asking thread writes `ids`, then sets `has_ids`; writes `readings`, then sets `done`.
    """

    facts: Mapping[TopicPartition, LogFacts]
    # Whether records are read where there are no ids.
    reads: bool = True
    ids: Mapping[str, bytes] = field(default_factory=dict)
    readings: Mapping[TopicPartition, Reading] = field(default_factory=dict)
    # Why records could not be read, for people.
    problem: str | None = None
    has_ids: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def unproved(self) -> dict[TopicPartition, int]:
        """Return the witnesses' offsets of those whom no id can tell from others."""
        return {
            partition: facts.witness[0]
            for partition, facts in self.facts.items()
            if facts.witness is not None and (facts.topic_id is None or partition.topic not in self.ids)
        }


class LogAsker:
    """Answers questions one after another. `open_consumer` opens one that joins no group."""

    def __init__(
        self,
        ids: TopicIds,
        open_consumer: Callable[[], Consumer],
        on_death: Callable[[BaseException], None] = lambda _error: None,
    ) -> None:
        """`on_death` is told when the thread ends by an error that nobody expected."""
        self.ids = ids
        self._open_consumer = open_consumer
        self._on_death = on_death
        self._questions: queue.SimpleQueue[Question | _Proof | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def ask(self, facts: Mapping[TopicPartition, LogFacts], *, reads: bool = True) -> Question:
        """Put a question; its answer comes by itself, or never once the run ends."""
        question = Question(facts, reads)
        if any(one.topic_id is not None for one in facts.values()):
            self.ids.are_known = True
        self._put(question)
        return question

    def prove(self, checkpoints: Mapping[TopicPartition, Checkpoint]) -> Mapping[TopicPartition, Judgement]:
        """Return of each checkpoint whether its log is still its own. Waits for the broker, within bounds.

        Raises `EndpointError` where that cannot be told.
        """
        proof = _Proof(checkpoints)
        if any(one.topic_id is not None for one in checkpoints.values()):
            self.ids.are_known = True
        self._put(proof)
        if not proof.done.wait(_PROOF_S):
            raise EndpointError(
                f"Whether {len(checkpoints)} logs are the mirror's was not told within {_PROOF_S:g} s."
            )
        if isinstance(proof.error, KafkaException):
            raise EndpointError(
                f"Whether the log is the mirror's could not be read: {describe_error(proof.error.args[0])}"
            ) from proof.error
        if proof.error is not None:
            raise proof.error
        return proof.judgements

    def stop(self) -> None:
        """End the thread within a moment. Without waiting for it."""
        self._stopping.set()
        self._questions.put(None)

    def _put(self, question: Question | _Proof) -> None:
        self._questions.put(question)
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="ehkafka-log", daemon=True)
            self._thread.start()

    def _main(self) -> None:
        try:
            while (question := self._questions.get()) is not None and not self._stopping.is_set():
                if isinstance(question, Question):
                    self._answer(question)
                else:
                    self._prove(question)
        except BaseException as error:  # whoever waits must not wait for a thread that is gone
            self._on_death(error)
        finally:
            self.ids.close()

    def _prove(self, proof: _Proof) -> None:
        topics = {p.topic for p, one in proof.checkpoints.items() if one.topic_id is not None}
        try:
            ids = self.ids.ask(topics, should_end=self._stopping.is_set)
            consumer = self._open_consumer()
            try:
                proof.judgements = prove(consumer, proof.checkpoints, ids)
            finally:
                consumer.close()
        except (KafkaException, EhkafkaError) as error:
            proof.error = error
        finally:
            proof.done.set()

    def _answer(self, question: Question) -> None:
        topics = {partition.topic for partition in question.facts}
        try:
            question.ids = self.ids.ask(topics, should_end=self._stopping.is_set)
            question.has_ids.set()
            question.readings = self._read(question.unproved() if question.reads else {})
        except KafkaException as error:
            question.problem = describe_error(error.args[0])
        except EhkafkaError as error:
            # Such as a key or token that is not to be had now. The consumer tells of that itself.
            question.problem = str(error)
        finally:
            question.has_ids.set()
            question.done.set()

    def _read(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, Reading]:
        if not offsets or self._stopping.is_set():
            return {}
        consumer = self._open_consumer()
        try:
            return read_witnesses(consumer, offsets, should_end=self._stopping.is_set)
        finally:
            consumer.close()
