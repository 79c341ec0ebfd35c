"""One handler's outlet: turns the results of its calls into outputs and puts them, on the call's own worker.

It is called around each call of the handler. For a worker process it is called when the process reports the
end of a call, with the outputs that the process made. An exception of the outlet fails the attempt, before a
later record of the key has ended.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.call import Call
from ehkafka.outputs.encoding import ANY_PARTITION, FRAME_BYTES, PLAIN, OutputMaker
from ehkafka.outputs.output import EntrySource, OutputRefusedError, Source
from ehkafka.outputs.send import Send
from ehkafka.outputs.unacknowledged import SMALL_BYTES_MAX
from ehkafka.records.deferral import DEADLINE_S_MAX, DEFERRED, defer, engines_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.encoding import Made
    from ehkafka.outputs.output import Answer, Output
    from ehkafka.outputs.unacknowledged import Unacknowledged
    from ehkafka.records.deferral import Deferred

    Judge = Callable[[Output, OutputRefusedError, int, Answer], None]

# A task that waits for room checks again after this time, while the other tasks of its loop run.
ROOM_CHECK_S = 5e-3


class Outlet:
    """Collects the outputs of a handler's calls. Any of its workers calls it."""

    def __init__(
        self,
        outputs: Unacknowledged,
        *,
        handler: str,
        topics: tuple[str, ...],
        bytes_max: int,
        judge: Judge,
        before_next: bool = False,
        is_async: bool = False,
        refuses_whole_batches: bool = False,
    ) -> None:
        """`judge` decides what happens to an output that the broker refuses."""
        self.outputs = outputs
        self.maker = OutputMaker(handler, topics, bytes_max)
        self.judge = judge
        # The topic of a returned plain value.
        self.topic = str.__str__(topics[0])
        self.before_next = before_next
        self._waits = not is_async
        self._refuses_whole_batches = refuses_whole_batches
        # `quick_put` puts values with keys of up to so many bytes itself.
        self._own_bytes_max = min(bytes_max - FRAME_BYTES, SMALL_BYTES_MAX)
        # By the `id` of the message: the call keeps the message alive, so no other object has that id. The
        # call's worker adds and removes.
        self.calls: dict[int, Call] = {}
        # Calls for one record each that have sent nothing yet and have no `Call` object, likewise by `id`.
        # The thread that removes one owns it: the worker when the call ends, or `_call_of`.
        self.begun: dict[int, Entry] = {}
        # Taken to make a `Call`, to add an output to it and to end it: a handler may send from several
        # threads.
        self._making = threading.Lock()

    # -- calls -----------------------------------------------------------------------------------------

    def begin(self, *entries: Entry, batch: object = None) -> Call:
        """Note that a call begins, for one record or for a batch."""
        call = Call(self, entries, batch)
        for place in call.places:
            self.calls[place] = call
        return call

    def returned(self, call: Call) -> None:
        """Put the outputs of a call that has returned; called before its record ends."""
        token = DEFERRED.get(id(call.message)) if DEFERRED and call.batch is None else None
        if token is not None and not self.before_next:
            call.token = token  # its record may send until `answered`
            return
        self.close(call)
        if token is not None:
            raise RuntimeError(
                f"{call.where} is deferred, but handler {self.maker.handler!r} is set to "
                f"acknowledged='before_next', which waits for outputs when the handler returns: do not "
                f"defer the record, or leave acknowledged= out"
            )
        if self.before_next and call.made:
            self._put_and_wait(call)
        else:
            call.put(waits=self._waits)

    def failed(self, message: object) -> None:
        """Drop the outputs of a record's call."""
        if self.begun.pop(id(message), None) is None:
            self.close(self.call_of(message))

    def answered(self, message: object, error: BaseException | None) -> None:
        """Put the outputs of a deferred record, or drop them if it failed.

        Called on the answering thread, before the record ends. Raises `NotSentError` if its epoch has ended.
        """
        call = self.calls.get(id(message))
        if call is not None and call.token is not None:
            self.close(call)
            if error is None:
                call.put(waits=False)

    def close(self, call: Call) -> None:
        """End a call: it takes no more outputs, and those that it has are put or dropped."""
        with self._making:
            call.is_over = True
        for place in call.places:
            self.calls.pop(place, None)

    def _call_of(self, message: object) -> Call | None:
        """Return the call of a record, if the record may send. Makes the `Call` if there is none yet."""
        place = id(message)
        with self._making:
            call = self.calls.get(place)
            if call is None and (entry := self.begun.get(place)) is not None:
                call = self.begin(entry)
                # Last: a thread that does not find the entry any more takes the lock and finds the call.
                if self.begun.pop(place, None) is None:
                    # The worker was quicker: the call has returned.
                    del self.calls[place]
                    return None
            return call

    def call_of(self, message: object) -> Call:
        """Return the call of a record. Raises `RuntimeError` if no call runs for it."""
        call = self._call_of(message)
        if call is None:
            raise self.maker.no_record()
        return call

    # -- what they send --------------------------------------------------------------------------------

    def quick_put(self, take: Callable[[Any, Any], None]) -> Callable[[Entry, int, Any], None]:
        """Return a function that puts the only value of a call in `begun`, and gives all others to `take`.

        The function may wait for room.
        """
        outputs, added, topic, bytes_max = self.outputs, self.outputs.added, self.topic, self._own_bytes_max
        begun, waits = self.begun, self._waits

        def put(entry: Entry, place: int, value: object) -> None:
            message = entry[MESSAGE]
            key = message.key()
            # While any record of any handler is deferred, it may be this one: then its call is not over.
            is_alone = place in begun and not DEFERRED
            if (
                is_alone
                and type(value) is bytes
                and type(key) is bytes
                and key
                and len(value) + len(key) <= bytes_max
                and not (outputs.is_full or entry[EPOCH].ended)
                and len(added) < outputs.count_at
            ):
                added.extend((self, entry, topic, value, key, None, ANY_PARTITION))
                if outputs.sleeps:
                    outputs.wake()
            elif is_alone and type(value) in PLAIN:
                # All other cases: other types, no key, too many bytes, no room, the end of an epoch.
                made = self.maker.plain(message, value)
                outputs.put(entry, self.flat(entry, made), made[5], waits=waits)
            else:
                take(message, value)

        return put

    def flat(self, source: Entry | Source, made: Made) -> tuple[Any, ...]:
        """Return the parts of one output."""
        return self, source, *made[:5]

    def take(self, record: object, result: object) -> None:
        """Keep the result of a handler for a record, or for a batch, until the call ends."""
        if result is not None:
            message = engines_own(record)
            self._add(self.call_of(message), message, result)

    async def wait_for_room(self) -> None:
        """Wait until there is room for outputs."""
        # Other threads make room, and they cannot set an event of this loop.
        while not (self.outputs.has_room() or self.outputs.is_closed):  # noqa: ASYNC110
            await asyncio.sleep(ROOM_CHECK_S)

    def send(self, message: Any, value: Any, **given: Any) -> None:
        """Keep an output that a record sends. Raises `RuntimeError` if its call has ended."""
        message = engines_own(message)
        call = self._call_of(message)
        if call is None or (call.token is not None and not call.token.is_open):
            raise _has_its_outcome(message)
        self._add(call, message, Send(value, **given))

    def _add(self, call: Call, message: object, result: object) -> None:
        if self._refuses_whole_batches and message is call.batch:
            raise RuntimeError(
                f"{call.where}: with exactly_once a batch handler cannot return outputs, because the batch's "
                "records may be committed separately: call record.send(…) for each record, or leave "
                "exactly_once out"
            )
        made = self.maker.made(message, result)
        with self._making:
            if call.is_over:
                raise _has_its_outcome(message)
            call.add(made, message)

    def _put_and_wait(self, call: Call) -> None:
        """Put a call's outputs; its record stays in flight until they are acknowledged."""
        token = defer(call.message, DEADLINE_S_MAX)
        source = _BeforeNext(call.entries[0])
        source.token, source.left = token, len(call.made)
        call.put(source=source, waits=self._waits)


def _has_its_outcome(message: Any) -> RuntimeError:
    where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
    return RuntimeError(
        f"{where} is finished, so it can send no more outputs: call send() before the handler returns, or "
        f"before you answer the token of defer()"
    )


class _BeforeNext(EntrySource):
    """A record whose key waits until its outputs are acknowledged."""

    takes_refusals = True
    token: Deferred
    left: int

    def acknowledged(self, _written: object = None) -> None:
        """Let the key continue when all outputs are acknowledged."""
        self.left -= 1
        if self.left == 0:
            self.token.finish()

    def refused(self, error: OutputRefusedError) -> None:
        """Fail the whole attempt: its key waits, so a retry may send all of its outputs again."""
        # On a thread of its own: it calls the user's retry function, and other outputs do not wait for that.
        if self.token.is_open:
            fail = partial(self.token.fail, error)
            threading.Thread(target=fail, name="ehkafka-outputs-retry", daemon=True).start()

    def gone(self) -> None:
        """Let the key continue: another member has the record now."""
        if self.token.is_open:
            self.token.fail(OutputRefusedError("the record's partition was taken away"))
