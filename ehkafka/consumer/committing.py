"""What `commit` and `store_offsets` do, and `enable.auto.commit`.

Turns what is asked for into a request of `commits`, and its answer into what confluent-kafka would return,
raise or call back. Any thread; `ask_auto` on the polling one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException
from confluent_kafka.cimpl import Message
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.consumer.arguments import Arguments
from ehkafka.consumer.commit_requests import CommitRequest
from ehkafka.progress.commits import as_offset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.consumer.commits import Commits
    from ehkafka.consumer.internals import Internals
    from ehkafka.records import TopicPartition


class Committing:
    """The commits of one consumer, as its program knows them."""

    def __init__(self, internals: Internals) -> None:
        self._internals = internals
        self._arguments = Arguments(internals)

    def asked(self, message: Any, offsets: Any) -> CommitRequest | None:
        """Return what a call of `commit` asks for; None: confluent-kafka has to see to it."""
        if message is not None or offsets is not None:
            if offsets is None and type(message) is Message and message.topic() is None:
                return CommitRequest({}, [])  # confluent-kafka would end the process
            return self._arguments.asked(message, offsets)
        deviating = self._internals.deviating
        if not deviating.has("bare_commit") and self._internals.marks is None:
            return None
        deviating.report("bare_commit")
        return self._arguments.bare()

    def commit(self, ask: CommitRequest, *, is_asynchronous: bool) -> list[KafkaPartition] | None:
        """Commit it, and return what `commit` returns. Raises `KafkaException`, as confluent-kafka does."""
        if not ask.positions:
            self._commit_nothing(ask, is_asynchronous=is_asynchronous)
            return None
        if self._internals.commits is None:
            where = [as_offset(p, position) for p, position in ask.positions.items()]
            return self._internals.bare.commit(offsets=where, asynchronous=is_asynchronous)  # type: ignore[no-any-return]
        self._internals.deviating.report("coalescing")
        return self._commit(self._internals.commits, ask, is_asynchronous=is_asynchronous)

    def _commit(
        self, commits: Commits, ask: CommitRequest, *, is_asynchronous: bool
    ) -> list[KafkaPartition] | None:
        internals = self._internals
        if is_asynchronous:
            ask.is_reported = internals.on_commit is not None
            commits.ask(ask)
            return None
        if internals.program_settings.sync_commit == "deferred":
            commits.ask(ask)
            return ask.answered(None, {})[1]
        error, partitions = commits.commit(ask)
        if error is not None:
            raise KafkaException(error)
        return partitions

    def _commit_nothing(self, ask: CommitRequest, *, is_asynchronous: bool) -> None:
        """Answer a commit when nothing is to be committed, as librdkafka does."""
        self._internals.access.refuse_while_closing()
        nothing: Any = KafkaError._NO_OFFSET  # noqa: SLF001 - librdkafka's own codes start with _
        if not is_asynchronous:
            raise KafkaException(KafkaError(nothing, "Commit failed: Local: No offset stored"))
        if self._internals.commits is not None:
            listed = [KafkaPartition(*partition, OFFSET_INVALID) for partition in ask.listed]
            self._internals.answers.append((KafkaError(nothing), listed))

    def store(self, message: Any, offsets: Any, bare: Callable[..., Any]) -> None:
        """Take what `store_offsets` was given; `bare` is confluent-kafka's own, which says what is wrong."""
        positions = self._arguments.positions(message, offsets)
        marks = self._internals.marks
        if positions is None or marks is None:
            bare(message, offsets)
        if positions is None:
            return
        if marks is not None:
            for partition, position in positions:
                marks.mark(partition, position.next_offset - 1)
        elif not self._internals.program_settings.auto_store:
            self._internals.stored.store(dict(positions))

    def ask_auto(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Ask for what `enable.auto.commit` commits now; of these partitions, or of all at an interval."""
        internals = self._internals
        if internals.auto is None:
            return
        internals.deviating.report("auto_commit")
        positions = self._arguments.automatic()
        if partitions is not None:
            positions = {p: position for p, position in positions.items() if p in partitions}
        if not positions:
            return
        if internals.commits is not None:
            ask = CommitRequest(positions, list(positions), is_reported=internals.on_commit is not None)
            internals.commits.ask(ask, will_flush=partitions is not None)
        else:
            where = [as_offset(p, position) for p, position in positions.items()]
            internals.bare.commit(offsets=where, asynchronous=True)
