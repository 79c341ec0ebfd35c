"""`ehkafka.Consumer`: a `confluent_kafka.Consumer` that commits what its program has asked for, at a pace.

It is confluent-kafka's own class: what is not named here is untouched, and so is every `Message`. The
program's thread polls; commits and marks may come from any thread. Before librdkafka is asked, arguments
that this class does not understand go to confluent-kafka, whose errors the program expects.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal, overload

from confluent_kafka.cimpl import Consumer as KafkaConsumer
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.consumer.access import CLOSE_WAIT_S
from ehkafka.consumer.carried_facts import without_ours
from ehkafka.consumer.committing import Committing
from ehkafka.consumer.ending import LastCalls, refuse, watch
from ehkafka.consumer.instrumented import instrumented
from ehkafka.consumer.internals import Internals
from ehkafka.consumer.polling import PollingConsumer
from ehkafka.consumer.program_settings import OwnOptions, flattened
from ehkafka.consumer.rebalances import Rebalances
from ehkafka.endpoint.client import initialise_consumer
from ehkafka.endpoint.text import check_client_texts, check_topics
from ehkafka.records import TopicPartition
from ehkafka.settings.option import documented_by, options_of, takes_options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Unpack

    from confluent_kafka import Message

    from ehkafka.consumer.keywords import (
        ConsumerOptions,
        RebalanceCallback,
        RebalanceCallbacks,
        TimeLimit,
    )

_OWN = {one.name for one in options_of(OwnOptions)}
_REBALANCE_ARGUMENTS = ("on_assign", "on_revoke", "on_lost")


@documented_by(OwnOptions)
class Consumer(PollingConsumer):
    """A drop-in for `confluent_kafka.Consumer`: the same constructor, methods, callbacks and errors.

    ```python
    from ehkafka import Consumer  # was: from confluent_kafka import Consumer

    with Consumer({"bootstrap.servers": "…", "group.id": "…"}) as consumer:
        ...
    ```

    It logs each difference from confluent-kafka's once, when it first matters.

    With `contiguous=True` records may be finished in any order, by any thread: `store_offsets(message)` and
    `commit(message)` (an offset stands for the record before it) say that this record is done, and no commit
    passes a delivered record that is not. Of a partition that is not ours any more nothing is committed. A
    partition with too many unmarked records is paused. If no mark comes for 30 s, the log names the oldest
    record that waits for one.

    Raises `ConfigurationError` for what Event Hubs does not take and for arguments of its own, else what
    confluent-kafka raises.

    - `*config`: one dict of librdkafka's properties, as confluent-kafka takes it.
    - `**properties`: more of them, as confluent-kafka takes them.

    Its own arguments:
    """

    @takes_options(OwnOptions, "")
    def __init__(self, *config: dict[str, Any], **properties: Unpack[ConsumerOptions]) -> None:
        given = config[0] if config else {}
        more: dict[str, Any] = dict(properties)
        own = {name: more.pop(name) for name in _OWN & more.keys()}
        # confluent-kafka says what is wrong.
        if not (config or more or own.get("endpoint")):
            super().__init__()
        if self._is_open or len(config) > 1 or not isinstance(given, dict):
            super().__init__(*config, **more)
        asked = flattened(given, more)
        # confluent-kafka would abort the process.
        check_client_texts(asked, "Consumer")
        if str(asked.get("group.id", "none")).strip() in {"", "None"}:
            raise ValueError("Failed to create consumer: group.id must be set")
        internals = self._internals = Internals(asked, own)
        self._committing = Committing(internals)
        self._rebalances = Rebalances(internals, self._committing.ask_auto)
        self._kept = deque()
        if internals.endpoint is None:
            super().__init__(dict(internals.properties))
        else:
            initialise_consumer(super().__init__, internals.properties)
        self._is_open = True
        internals.join(self, self._rebalances.begin_anew)
        watch(self)

    if not TYPE_CHECKING:  # its arguments are those of the constructor, also for `inspect`

        def __new__(cls, *_arguments: Any, **_named: Any) -> Any:
            """Make one, with OpenTelemetry's spans where its instrumentation is on."""
            return super().__new__(instrumented(cls, Consumer))

        __new__.__wrapped__ = __init__

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
        ask = None if older or not self._is_open else self._committing.asked(message, offsets)
        if ask is not None:
            return self._committing.commit(ask, is_asynchronous=bool(asynchronous))
        bare: Any = super().commit
        return bare(message, offsets, asynchronous=asynchronous, **older)  # type: ignore[no-any-return]

    def store_offsets(
        self, message: Message | None = None, offsets: list[KafkaPartition] | None = None
    ) -> None:
        """See `confluent_kafka.Consumer.store_offsets`."""
        if self._is_open:
            self._committing.store(message, offsets, super().store_offsets)
        else:
            super().store_offsets(message, offsets)

    def committed(
        self, partitions: list[KafkaPartition], *timeouts: float, **named: Unpack[TimeLimit]
    ) -> list[KafkaPartition]:
        """See `confluent_kafka.Consumer.committed`. The metadata of our commits are left out."""
        found: list[KafkaPartition] = super().committed(partitions, *timeouts, **named)
        return without_ours(found) if self._is_open and self._internals.log_guard.is_on else found

    # --- partitions -----------------------------------------------------------------------------------

    def subscribe(
        self,
        topics: list[str],
        *callbacks: RebalanceCallback | None,
        **named: Unpack[RebalanceCallbacks],
    ) -> None:
        """See `confluent_kafka.Consumer.subscribe`."""
        given: dict[str, Any] = {**dict(zip(_REBALANCE_ARGUMENTS, callbacks, strict=False)), **named}
        if isinstance(topics, list):
            # confluent-kafka takes whatever has a text, and ends the process for what librdkafka cannot read.
            topics = list(map(str, topics))
            check_topics(topics, "Consumer.subscribe")
        internals = self._internals
        is_understood = isinstance(topics, list) and len(callbacks) <= len(_REBALANCE_ARGUMENTS)
        is_understood &= given.keys() <= set(_REBALANCE_ARGUMENTS) and all(map(callable, given.values()))
        if not is_understood or not self._is_open:
            super().subscribe(topics, *callbacks, **named)
            return
        internals.mirror.subscribed(topics)
        if internals.endpoint is not None:
            internals.endpoint.prepare_topics(name for name in topics if not name.startswith("^"))
        super().subscribe(topics, **self._rebalances.callbacks(given))

    def assign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.assign`."""
        _check(partitions, "assign")
        super().assign(partitions)
        self._drop_kept()
        self._rebalances.assigned(partitions, anew=True)

    def incremental_assign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.incremental_assign`."""
        _check(partitions, "incremental_assign")
        super().incremental_assign(partitions)
        self._rebalances.assigned(partitions, anew=False)

    def unassign(self) -> None:
        """See `confluent_kafka.Consumer.unassign`."""
        super().unassign()
        self._drop_kept()
        self._rebalances.unassigned(None)

    def incremental_unassign(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.incremental_unassign`."""
        super().incremental_unassign(partitions)
        self._drop_kept(_names(partitions))
        self._rebalances.unassigned(partitions)

    def seek(self, partition: KafkaPartition) -> None:
        """See `confluent_kafka.Consumer.seek`. What lies behind is not committed for having been returned."""
        super().seek(partition)
        name = TopicPartition(partition.topic, partition.partition)
        self._drop_kept([name])
        self._internals.returned.sought(name, partition.offset)

    def pause(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.pause`."""
        super().pause(partitions)
        if self._internals.marks is not None:
            self._internals.marks.paused_by_program.update(_names(partitions))

    def resume(self, partitions: list[KafkaPartition]) -> None:
        """See `confluent_kafka.Consumer.resume`."""
        marks = self._internals.marks
        is_list = isinstance(partitions, list) and all(isinstance(one, KafkaPartition) for one in partitions)
        if marks is None or not is_list:
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
        access, last_calls = self._internals.access, self._internals.callbacks.last_calls
        if access.closing == get_ident() or (last_calls is not None and last_calls.is_left):
            return  # in a callback of the close, or its thread is still at it
        if access.poller == get_ident():
            # In a callback of `poll` or `consume`. confluent-kafka would take the client away from under its
            # own call, or stand still.
            self._internals.callbacks.close_later()
            return
        with access.lock:
            access.closing = access.closing or get_ident()
        # confluent-kafka would take the client away from under another thread's call, or stand still.
        close_s = self._internals.program_settings.close_s
        is_in = access.door.acquire(timeout=CLOSE_WAIT_S if close_s is None else min(CLOSE_WAIT_S, close_s))
        try:
            # Of several that close, the first one inside does.
            if self._is_open and (is_in or access.closing == get_ident()):
                access.closing = get_ident()
                self._close()
        finally:
            if is_in:
                access.door.release()

    def _close(self) -> None:
        internals = self._internals
        last_calls = internals.callbacks.last_calls = LastCalls()
        try:
            if internals.access.poller is None:  # else another thread is still in its call
                self._check_positions()
            self._committing.ask_auto(internals.held)
        finally:
            internals.close()
            try:
                last_calls.run(self._close_client, internals.program_settings.close_s)
            finally:
                if last_calls.is_left:
                    internals.access.leave_to(last_calls.thread_id)
                    internals.report_left()
                self._kept.clear()
                self._rebalances.end_all()
                internals.closed()
        internals.report_answers()
        internals.callbacks.release()

    def _close_client(self) -> None:
        """Send what waits, leave the group and end the client. On the thread of its last calls."""
        internals, last_calls = self._internals, self._internals.callbacks.last_calls
        assert last_calls is not None
        try:
            internals.commits.finish()
            last_calls.at_home(internals.report_answers)
        finally:
            # From here on confluent-kafka answers every call, in rebalance callbacks too.
            try:
                super().close()
            finally:
                self._is_open = False

    def at_exit(self) -> None:
        """Inner: wait for the commits that were asked for, as confluent-kafka's destructor does."""
        internals = self._internals
        if not self._is_open or internals.access.closing is not None:
            return
        commits, close_s = internals.commits, internals.program_settings.close_s
        if commits.has_unanswered and not LastCalls().run(commits.settle, close_s):
            internals.report_left()
        internals.mirror.stop()
        internals.log_lines.close()

    def forked(self) -> None:
        """Inner: refuse every call in the child of a fork: librdkafka would wait for missing threads."""
        self._is_open = False
        for name in dir(KafkaConsumer):
            if not name.startswith("_"):
                setattr(self, name, refuse)
        # Its end would wait, too.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def __del__(self) -> None:
        """End with the program's last reference. Nothing is committed that was not asked for."""
        if not self._is_open or sys.is_finalizing():
            return
        bare = self._internals.bare
        bare.consumer = lambda: self  # the collector has cleared the weak reference
        try:
            self.at_exit()
            self._internals.close()
        finally:
            self._is_open = False
            bare.consumer = _none

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close. confluent-kafka's own would not come by this class's `close`."""
        self.close()
        return None


def _none() -> None:
    """Return the consumer of a client that has ended."""


def _names(partitions: Sequence[KafkaPartition]) -> list[TopicPartition]:
    return [TopicPartition(p.topic, p.partition) for p in partitions]


def _check(partitions: Any, what: str) -> None:
    if isinstance(partitions, list):
        check_topics([p.topic for p in partitions if isinstance(p, KafkaPartition)], f"Consumer.{what}")
