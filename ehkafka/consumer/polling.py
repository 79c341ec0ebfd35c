"""Polling: what the drop-in does before and after it asks librdkafka, and while that waits.

On the program's polling thread. What is returned is noted, never touched; this is the path of every record.
"""

from __future__ import annotations

from collections import deque
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka.cimpl import Consumer as KafkaConsumer

from ehkafka.consumer.access import Access
from ehkafka.consumer.positions import Returned

if TYPE_CHECKING:
    from collections.abc import Collection

    from confluent_kafka import Message

    from ehkafka.consumer.commit_requests import Answer
    from ehkafka.consumer.committing import Committing
    from ehkafka.consumer.internals import Internals

_poll: Any = KafkaConsumer.poll
_consume: Any = KafkaConsumer.consume
_NUMBERS = (int, float)
# To take no message is over at once, whatever the time-out.
_NOTHING = (0,)


class Unopened:
    """Stands for the `Internals` of a consumer before its constructor has run, or after it has failed.

    A program's own class may forget to call the constructor above it. Each call has to come by
    confluent-kafka then, which knows what is wrong with it, so every part that is asked on the way there is
    idle: nothing waits, nothing is looked after. Values; shared by all consumers.
    """

    answers: tuple[Answer, ...] = ()
    has_checks = False
    marks = None
    commits = None
    access = Access()
    # Nothing is ever put into it: confluent-kafka returns nothing without a client.
    returned = Returned()


class PollingConsumer(KafkaConsumer):
    """A consumer that looks after its commits whenever it is polled."""

    # Replaced by the constructor, which a program's own class may not have called.
    _internals: Internals = cast("Internals", Unopened())
    _is_open = False
    # Returned by librdkafka and not yet by us: a callback raised meanwhile. Polling thread.
    _kept: deque[Message] = cast("deque[Message]", ())
    # Whether what is returned counts as given at once. The asyncio drop-in calls `_note` when it has arrived.
    _is_noted_at_once = True
    _committing: Committing

    def poll(self, timeout: float = -1) -> Message | None:  # noqa: PLR0912 - no call more for each record
        """See `confluent_kafka.Consumer.poll`."""
        internals = self._internals
        access = internals.access
        door = access.door
        if (access.closing is not None or not door.acquire(False)) and not access.come_in(timeout):
            return None if self._is_open else _poll(self, 0)
        try:
            returned = internals.returned
            if returned.has_latest:
                returned.begin()
            if internals.answers or (internals.has_checks and monotonic() >= internals.next_check_s):
                self._check()
            marks = internals.marks
            if marks is not None:
                marks.check()
            kept = self._kept  # another thread may put another one in its place
            if kept:
                message: Message | None = kept.popleft()
            else:
                if marks is not None:
                    marks.room(1)
                message = self._wait(_poll, (), timeout)
                if internals.callbacks.is_cut:
                    message = next(iter(self._cut([] if message is None else [message])), None)
            if message is not None:
                if self._is_noted_at_once:
                    returned.took_one(message)
                    if marks is not None:
                        marks.delivered([message])
                else:
                    returned.has_latest = True
            return message
        finally:
            door.release()

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """See `confluent_kafka.Consumer.consume`."""
        internals = self._internals
        access = internals.access
        if (access.closing is not None or not access.door.acquire(False)) and not access.come_in(timeout):
            return [] if self._is_open else _consume(self, 1, 0)
        try:
            return self._consume(num_messages, timeout)
        finally:
            access.door.release()

    def _consume(self, num_messages: int, timeout: float) -> list[Message]:
        internals = self._internals
        returned, marks = internals.returned, internals.marks
        returned.begin()
        self._check()
        if marks is not None:
            marks.check()
        kept = self._kept
        if kept:
            batch = [kept.popleft() for _ in range(min(num_messages, len(kept)))]
        else:
            if marks is not None and num_messages > 0:
                num_messages = marks.room(num_messages)
            batch = self._wait(_consume, (num_messages,), timeout)
            if internals.callbacks.is_cut:
                batch = self._cut(batch)
        if batch:
            if self._is_noted_at_once:
                returned.took(batch)
                if marks is not None:
                    marks.delivered(batch)
            else:
                returned.has_latest = True
        return batch

    def _wait(self, call: Any, arguments: tuple[Any, ...], timeout: Any) -> Any:
        """Ask librdkafka, in pieces where it may take long: others have to come by in between."""
        access, commits = self._internals.access, self._internals.commits
        access.poller = access.last_poller = get_ident()
        try:
            if access.is_sending or access.is_wanted:
                commits.pump_from_poll()
            is_long = isinstance(timeout, _NUMBERS) and not 0 <= timeout <= access.piece_s
            if is_long and arguments != _NOTHING:
                return self._wait_in_pieces(call, arguments, timeout)
            return call(self, *arguments, timeout)
        finally:
            access.poller = None
            access.polls += 1
            if access.waiting_threads:
                access.poll_is_over()

    def _wait_in_pieces(self, call: Any, arguments: tuple[object, ...], timeout: float) -> object:
        internals = self._internals
        ends_s = monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            piece_s = internals.access.piece_s
            left_s = ends_s - monotonic()
            found = call(self, *arguments, max(0.0, min(piece_s, left_s)))
            is_empty = found is None or (isinstance(found, list) and not found)
            if not is_empty or left_s <= piece_s or internals.callbacks.is_cut:
                return found
            internals.access.refuse_while_closing()
            internals.commits.pump()
            self._check()
            if internals.marks is not None:
                internals.marks.check()

    def _cut(self, messages: list[Message]) -> list[Message]:
        """Do what a callback had to leave for the end of the call, and return what that returns."""
        callbacks = self._internals.callbacks
        if callbacks.is_close_wanted:
            self.close()  # raises as well what was kept
            return messages
        # What was about to be returned is returned by the next call.
        self._kept.extend(messages)
        callbacks.release()
        return []

    def _drop_kept(self, partitions: Collection[tuple[object, object]] | None = None) -> None:
        """The program goes elsewhere: what was to be returned next of these, or of all, lies behind it."""
        if self._kept:
            kept = [] if partitions is None else list(self._kept)
            self._kept = deque(m for m in kept if (m.topic(), m.partition()) not in (partitions or ()))

    def _check(self) -> None:
        """Do what the polling thread has to do now and then. May raise what `on_commit` raises."""
        internals = self._internals
        if internals.answers:
            internals.report_answers()
        if not internals.has_checks:
            return
        now_s = monotonic()
        if internals.anew is not None and self._is_open and not self._kept:
            internals.anew.check(internals.log_guard.check(now_s))
        if internals.check(now_s) and self._is_open:
            self._check_positions()
            self._committing.ask_auto()

    def _check_positions(self) -> None:
        """Let the automatic commit pass what is no record, if all that librdkafka handed out was returned."""
        internals = self._internals
        if internals.passed is not None and not self._kept and not internals.returned.has_latest:
            internals.passed.check(internals.held, internals.returned)
