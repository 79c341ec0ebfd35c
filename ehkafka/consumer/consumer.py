"""`ehkafka.Consumer`: a `confluent_kafka.Consumer` that commits what its program has asked for, at a pace.

It is confluent-kafka's own class: what is not named here is untouched, and so is every `Message`. The
program's thread polls; commits and marks may come from any thread. Before librdkafka is asked, arguments
that this class does not understand go to confluent-kafka, whose errors the program expects.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, overload

import confluent_kafka
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPartition

from ehkafka.consumer.asks import Ask
from ehkafka.consumer.choices import UNMARKED_BYTES_MAX, UNMARKED_RECORDS_MAX, SyncCommit
from ehkafka.consumer.parts import CREDENTIAL_LOOK_S, Parts
from ehkafka.consumer.rebalances import Rebalances
from ehkafka.consumer.wishes import Wishes
from ehkafka.endpoint.client import initialise_consumer
from ehkafka.progress.committer import as_offset
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.consumer.asks import Answer
    from ehkafka.consumer.commits import Commits
    from ehkafka.consumer.deviations import Deviation
    from ehkafka.endpoint import Endpoint

_poll: Any = confluent_kafka.Consumer.poll
_consume: Any = confluent_kafka.Consumer.consume
# confluent-kafka itself cuts longer waits into pieces of this length, to look for signals.
PIECE_S = 0.2
_REBALANCE_CALLBACKS = frozenset({"on_assign", "on_revoke", "on_lost"})
# Once other threads commit: they get in between two pieces.
SHARED_PIECE_S = 0.02


class Consumer(confluent_kafka.Consumer):
    """A drop-in for `confluent_kafka.Consumer`: the same constructor, methods, callbacks and errors.

    ```python
    from ehkafka import Consumer  # was: from confluent_kafka import Consumer

    with Consumer({"bootstrap.servers": "…", "group.id": "…"}) as consumer:
        ...
    ```

    Beside confluent-kafka's arguments it takes `endpoint=` (an `ehkafka.Endpoint`: the dict then needs no
    address or credentials; its values win where Event Hubs permits them) and `mirror=` (commits are copied
    there, and a partition without a commit begins there).

    What it does in its own way. Each is logged once, and switched off by its name in `as_confluent=`:

    - `bare_commit`: `commit()` without arguments takes the positions of what polls have returned by then.
      confluent-kafka takes them a little later, perhaps with the next batch that nobody has handled.
    - `coalescing`: one commit is on its way at a time. Those asked for meanwhile go in the next request,
      together; asynchronous ones at least 1 s apart on Event Hubs, synchronous ones at once. Each is
      answered, `on_commit` in a later `poll` or `consume` or in `close`. What waits is sent before a
      partition is revoked and at `close`.
    - `auto_commit`: `enable.auto.commit` commits, at each interval, at a revoke and at `close`, what a poll
      has returned once a later poll has begun: not what the program may still be busy with.
    - `callbacks`: an exception in a callback comes out of `poll` or `consume`, after at most 0.2 s, and the
      records that were about to be returned are returned by the next call.
    - `settings`: on Event Hubs, what the service needs is added and what it does not take is refused.

    With `contiguous=True` records may be finished in any order, by any thread: `store_offsets(message)` and
    `commit(message)` (an offset stands for the record before it) say that this record is done, and no commit
    passes a delivered record that is not. A partition with too many of those is paused; all together are
    bounded by `unmarked_records_max` and `unmarked_bytes_max`.

    With `sync_commit="deferred"` a synchronous commit returns when it is accepted, as if it were
    asynchronous; its answer is logged if it is a refusal.

    Raises `ConfigurationError` for what Event Hubs does not take and for arguments of its own, else what
    confluent-kafka raises.
    """

    def __init__(
        self,
        *config: dict[str, Any],
        endpoint: Endpoint | None = None,
        mirror: MirrorChoice | None = None,
        contiguous: bool = False,
        unmarked_records_max: int = UNMARKED_RECORDS_MAX,
        unmarked_bytes_max: int = UNMARKED_BYTES_MAX,
        sync_commit: SyncCommit = "acknowledged",
        as_confluent: Collection[Deviation] = (),
        **properties: Any,
    ) -> None:
        self._is_open = False
        given = config[0] if config else {}
        if len(config) > 1 or not isinstance(given, dict) or not (config or properties or endpoint):
            super().__init__(*config, **properties)  # it says what is wrong
        if str(given.get("group.id", properties.get("group.id"))) == "":
            # confluent-kafka would abort the process.
            raise ValueError("Failed to create consumer: group.id must be set")
        parts = self._parts = Parts(
            given,
            properties,
            endpoint=endpoint,
            mirror=mirror,
            as_confluent=as_confluent,
            contiguous=contiguous,
            unmarked_records_max=unmarked_records_max,
            unmarked_bytes_max=unmarked_bytes_max,
            sync_commit=sync_commit,
        )
        self._wishes = Wishes(parts)
        self._rebalances = Rebalances(parts, self._ask_auto)
        # Returned by librdkafka and not yet by us: a callback raised meanwhile. Polling thread.
        self._kept: deque[Message] = deque()
        if parts.endpoint is None:
            super().__init__(parts.properties)
        else:
            initialise_consumer(super().__init__, parts.properties)
        self._is_open = True
        parts.join(self)

    # --- polling --------------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> Message | None:
        """See `confluent_kafka.Consumer.poll`."""
        parts = self._parts
        parts.returned.begin()
        if parts.has_looks or (parts.commits is not None and parts.commits.answers):
            self._look()
        if self._kept:
            message: Message | None = self._kept.popleft()
        else:
            if parts.marks is not None:
                parts.marks.room(1)
            message = self._wait(_poll, (), timeout)
            if parts.guarded.error is not None:
                if message is not None:
                    self._kept.append(message)
                parts.guarded.release()
        if message is not None:
            parts.returned.took_one(message)
            if parts.marks is not None:
                parts.marks.delivered([message])
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """See `confluent_kafka.Consumer.consume`."""
        parts = self._parts
        parts.returned.begin()
        self._look()
        if self._kept:
            batch = [self._kept.popleft() for _ in range(min(num_messages, len(self._kept)))]
        else:
            if parts.marks is not None and num_messages > 0:
                num_messages = parts.marks.room(num_messages)
            batch = self._wait(_consume, (num_messages,), timeout)
            if parts.guarded.error is not None:
                self._kept.extend(batch)
                parts.guarded.release()
        if batch:
            parts.returned.took(batch)
            if parts.marks is not None:
                parts.marks.delivered(batch)
        return batch

    def _wait(self, call: Any, arguments: tuple[Any, ...], timeout: Any) -> Any:
        """Ask librdkafka, in pieces where it may take long: others have to come by in between."""
        commits = self._parts.commits
        if commits is None:
            return call(self, *arguments, timeout)
        commits.begin_poll()
        try:
            piece_s = SHARED_PIECE_S if commits.is_shared else PIECE_S
            if not isinstance(timeout, int | float) or 0 <= timeout <= piece_s:
                return call(self, *arguments, timeout)
            return self._wait_in_pieces(call, arguments, timeout)
        finally:
            commits.end_poll()

    def _wait_in_pieces(self, call: Any, arguments: tuple[Any, ...], timeout: float) -> Any:
        parts = self._parts
        assert parts.commits is not None
        ends_s = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            piece_s = SHARED_PIECE_S if parts.commits.is_shared else PIECE_S
            left_s = ends_s - time.monotonic()
            found = call(self, *arguments, max(0.0, min(piece_s, left_s)))
            is_empty = found is None or (isinstance(found, list) and not found)
            if not is_empty or left_s <= piece_s or parts.guarded.error is not None:
                return found
            parts.commits.pump()
            self._look()

    def _look(self) -> None:
        """Do what the polling thread has to do now and then. May raise what `on_commit` raises."""
        parts = self._parts
        if parts.commits is not None and parts.commits.answers:
            parts.tell_answers()
        if parts.marks is not None:
            parts.marks.look()
        now_s = time.monotonic()
        if parts.auto is not None and parts.auto.is_due(now_s) and self._is_open:
            self._ask_auto(None)
        if now_s >= parts.next_credential_look_s:
            parts.next_credential_look_s = now_s + CREDENTIAL_LOOK_S
            parts.credential.apply()

    # --- committing -----------------------------------------------------------------------------------

    # The stubs know no positional arguments, which confluent-kafka takes.
    @overload  # type: ignore[override]
    def commit(
        self,
        message: Message | None = ...,
        offsets: list[KafkaPartition] | None = ...,
        asynchronous: Literal[True] = ...,
    ) -> None: ...
    @overload
    def commit(
        self,
        message: Message | None = ...,
        offsets: list[KafkaPartition] | None = ...,
        *,
        asynchronous: Literal[False],
    ) -> list[KafkaPartition]: ...
    def commit(
        self,
        message: Message | None = None,
        offsets: list[KafkaPartition] | None = None,
        asynchronous: object = True,
        **older: Any,
    ) -> list[KafkaPartition] | None:
        """See `confluent_kafka.Consumer.commit`, and this class for what is done in its own way."""
        asynchronous = older.pop("async", asynchronous)
        ask = None if older or not self._is_open else self._ask_for(message, offsets)
        bare: Any = super().commit
        if ask is None:
            return bare(message, offsets, asynchronous=asynchronous, **older)  # type: ignore[no-any-return]
        if not ask.positions:
            self._commit_nothing(ask, asynchronous)
            return None
        if self._parts.commits is None:
            where = [as_offset(p, position) for p, position in ask.positions.items()]
            return bare(offsets=where, asynchronous=asynchronous)  # type: ignore[no-any-return]
        return self._commit(self._parts.commits, ask, asynchronous)

    def _commit(self, commits: Commits, ask: Ask, asynchronous: object) -> list[KafkaPartition] | None:
        parts = self._parts
        parts.deviating.tell("coalescing")
        if asynchronous:
            ask.is_told = parts.on_commit is not None
            commits.ask(ask)
            return None
        if parts.choices.sync_commit == "deferred":
            commits.ask(ask)
            return ask.answered(None, {})[1]
        error, partitions = commits.commit(ask)
        if error is not None:
            raise KafkaException(error)
        return partitions

    def _ask_for(self, message: Any, offsets: Any) -> Ask | None:
        if message is not None or offsets is not None:
            return self._wishes.asked(message, offsets)
        deviating = self._parts.deviating
        if not deviating.has("bare_commit") and self._parts.marks is None:
            return None
        deviating.tell("bare_commit")
        return self._wishes.bare(self.assignment())

    def store_offsets(
        self, message: Message | None = None, offsets: list[KafkaPartition] | None = None
    ) -> None:
        """See `confluent_kafka.Consumer.store_offsets`."""
        positions = self._wishes.positions(message, offsets) if self._is_open else None
        marks = self._parts.marks
        if positions is None or marks is None:
            super().store_offsets(message, offsets)
        if marks is not None and positions is not None:
            for partition, position in positions:
                marks.mark(partition, position.next_offset - 1)
        elif positions is not None and not self._parts.choices.auto_store:
            self._parts.stored.store(dict(positions))

    def _commit_nothing(self, ask: Ask, asynchronous: object) -> None:
        """Answer a commit without arguments when nothing is to be committed, as librdkafka does."""
        nothing: Any = KafkaError._NO_OFFSET  # noqa: SLF001 - librdkafka's own codes start with _
        if not asynchronous:
            raise KafkaException(KafkaError(nothing, "Commit failed: Local: No offset stored"))
        if self._parts.commits is not None:
            answer: Answer = KafkaError(nothing), [KafkaPartition(*p, OFFSET_INVALID) for p in ask.listed]
            self._parts.commits.answers.append(answer)

    def _ask_auto(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Ask for what `enable.auto.commit` commits now; at an interval (None) and before a revoke."""
        parts = self._parts
        if parts.auto is None:
            return
        parts.deviating.tell("auto_commit")
        positions = self._wishes.automatic()
        if partitions is not None:
            positions = {p: position for p, position in positions.items() if p in partitions}
        if not positions:
            return
        if parts.commits is not None:
            ask = Ask(positions, list(positions), is_told=parts.on_commit is not None)
            parts.commits.ask(ask, will_flush=partitions is not None)
        else:
            where = [as_offset(p, position) for p, position in positions.items()]
            super().commit(offsets=where, asynchronous=True)

    # --- partitions -----------------------------------------------------------------------------------

    def subscribe(self, topics: list[str], *callbacks: Any, **named: Any) -> None:
        """See `confluent_kafka.Consumer.subscribe`."""
        given = dict(zip(("on_assign", "on_revoke", "on_lost"), callbacks, strict=False)) | named
        parts = self._parts
        is_understood = isinstance(topics, list) and all(isinstance(topic, str) for topic in topics)
        is_understood &= len(callbacks) <= len(_REBALANCE_CALLBACKS) and given.keys() <= _REBALANCE_CALLBACKS
        if not is_understood or not all(map(callable, given.values())):
            super().subscribe(topics, *callbacks, **named)
            return
        parts.mirror.subscribed(topics)
        if parts.endpoint is not None:
            parts.endpoint.prepare_topics(topic for topic in topics if not topic.startswith("^"))
        super().subscribe(topics, **self._rebalances.callbacks(given))

    def assign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.assign`."""
        super().assign(partitions)
        self._rebalances.assigned(partitions, anew=True)

    def incremental_assign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.incremental_assign`."""
        super().incremental_assign(partitions)
        self._rebalances.assigned(partitions, anew=False)

    def unassign(self) -> None:
        """See `confluent_kafka.Consumer.unassign`."""
        super().unassign()
        self._rebalances.unassigned(None)

    def incremental_unassign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.incremental_unassign`."""
        super().incremental_unassign(partitions)
        self._rebalances.unassigned(partitions)

    def pause(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.pause`."""
        super().pause(partitions)
        if self._parts.marks is not None:
            self._parts.marks.paused_by_program.update(_names(partitions))

    def resume(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.resume`."""
        marks = self._parts.marks
        if marks is None:
            super().resume(partitions)
            return
        marks.paused_by_program.difference_update(_names(partitions))
        # What is held for want of marks goes on when half of it is marked.
        super().resume([p for p in partitions if not marks.is_held(TopicPartition(p.topic, p.partition))])

    # --- the end --------------------------------------------------------------------------------------

    def close(self) -> None:
        """See `confluent_kafka.Consumer.close`. What was asked to be committed is committed first."""
        if not self._is_open:
            super().close()
            return
        parts = self._parts
        try:
            self._ask_auto_at_close()
            parts.close()
            if parts.commits is not None:
                parts.commits.flush()
                parts.tell_answers()
        finally:
            parts.close()
            # From here on confluent-kafka answers every call, in rebalance callbacks too.
            try:
                super().close()
            finally:
                self._is_open = False
                self._rebalances.end_all()
                parts.closed()
        parts.tell_answers()
        parts.guarded.release()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close. confluent-kafka's own would not come by this class's `close`."""
        self.close()
        return None

    def _ask_auto_at_close(self) -> None:
        self._ask_auto(list(self._wishes.automatic()) if self._parts.auto is not None else None)


def _names(partitions: Sequence[KafkaPartition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in partitions]
