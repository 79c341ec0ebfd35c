"""One handler's way out: from what a call returns to outputs in the book, on the call's own worker.

Called around each call of the handler, or for one that has ended in a worker process, which has made its
outputs. What it raises is the attempt's failure, before any later record of the key has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ehkafka.outputs.book import ADDED_MAX, PARTS, PLAIN_BYTES_MAX
from ehkafka.outputs.claim import Claim, Output, SingleOutput
from ehkafka.outputs.encoding import FRAME_BYTES
from ehkafka.outputs.in_vain import InVain
from ehkafka.outputs.kinds import kind_of
from ehkafka.outputs.making import PLAIN, OutputMaker
from ehkafka.outputs.send import Send
from ehkafka.records.deferral import DEADLINE_S_MAX, DEFERRED, defer, engines_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ehkafka.events import Event
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.book import OutputBook
    from ehkafka.outputs.kinds import TopicKinds
    from ehkafka.outputs.making import Made
    from ehkafka.records import Message

# Between two looks of a task for room, while others of its loop run.
ROOM_CHECK_S = 5e-3
# Deferred calls known before the first look for those that were answered.
DEFERRED_MIN = 256


class Outlet:
    """What a handler's calls send. Any of its workers; `open_calls` has one entry for each call that runs."""

    def __init__(
        self,
        book: OutputBook,
        *,
        handler: str,
        topics: tuple[str, ...],
        bytes_max: int,
        before_next: bool = False,
        is_async: bool = False,
        report: Callable[[Claim], Event] | None = None,
        emit: Callable[[Event], None] = lambda _event: None,
        kinds: TopicKinds | None = None,
        voids_failed: bool = False,
    ) -> None:
        """`voids_failed`: what a failed call had sent goes nowhere."""
        self.book = book
        self.maker = OutputMaker(handler, topics, bytes_max)
        # Where what is returned as a plain value goes.
        self.topic = str.__str__(topics[0])
        self.before_next = before_next
        self._is_async = is_async
        self._report = report
        self._emit = emit
        self._kinds = kinds
        # Topics of ours that other handlers send to, and what was reported of them; workers add.
        self._shared = kinds.shared & frozenset(topics) if kinds else frozenset()
        self._noted: set[tuple[str, str]] = set()
        # Up to here a value and its key need no second look; -1: each is to be noted.
        self._own_bytes_max = -1 if self._shared else min(bytes_max - FRAME_BYTES, PLAIN_BYTES_MAX)
        self.post_plain = self._short_way()
        # By the message's `id`, which the claim keeps from being another's. A call's worker adds and takes
        # out.
        self.open_calls: dict[int, Claim] = {}
        # Likewise the calls for one record each that have sent nothing yet, and so have no claim. Whoever
        # takes one out has it: its worker, whose call is over, or `_open_claim`.
        self.begun: dict[int, Epoch] = {}
        # Held while a claim is made of one: a handler may send from several threads.
        self._claiming = threading.Lock()
        self.in_vain = InVain(self.open_calls, self._say_in_vain, is_void=voids_failed)
        # Calls whose records were deferred: they may send until they are answered. Workers append; one at a
        # time looks for those that were, each time that there are twice as many.
        self._deferred: deque[Claim] = deque()
        self._deferred_max = DEFERRED_MIN
        self._sweeping = threading.Lock()

    def begin(self, epoch: Epoch, message: Message, attempt: int) -> Claim:
        """Note that a call for one record begins."""
        claim = Claim(self, ((epoch, message.offset()),), message, attempt)
        claim.is_before_next = self.before_next
        self.open_calls[id(message)] = claim
        return claim

    def begin_batch(self, batch: object, inputs: list[tuple[Epoch, Message]], attempt: int = 1) -> Claim:
        """Note that a call for several records begins: what it sends is of all of them."""
        messages = [message for _, message in inputs]
        its_inputs = tuple((epoch, message.offset()) for epoch, message in inputs)
        claim = Claim(self, its_inputs, messages, attempt)
        claim.batch = batch
        self.open_calls[id(batch)] = claim
        for message in messages:
            self.open_calls[id(message)] = claim
        return claim

    def _short_way(self) -> Callable[[Epoch, Message, object], None]:
        """Return what sends the one value of a call that has sent nothing else. May wait for room."""
        book, added, bytes_max, other_way = self.book, self.book.added, self._own_bytes_max, self._post_other
        added_max = ADDED_MAX * PARTS

        def post_plain(epoch: Epoch, message: Message, value: object) -> None:
            # In short what `plain` and `add_plain` do, which have the rest: other types, no key, a shared
            # topic, too many bytes, no room, the end of an epoch.
            key = message.key()
            if (
                type(value) is bytes
                and key
                and len(value) + len(key) <= bytes_max
                and not (book.is_full or epoch.ended)
                and len(added) < added_max
            ):
                added.extend((self, epoch, message, key, value, None))
                if book.sleeps:
                    book.wake()
            else:
                other_way(epoch, message, value)

        return post_plain

    def _post_other(self, epoch: Epoch, message: Message, given: object) -> None:
        note = self._note_kind if self._shared else None
        topic, value, key, headers, _, size = self.maker.plain(message, given, note)
        if key and value is not None and size <= PLAIN_BYTES_MAX:
            self.book.add_plain((self, epoch, message, key, value, headers), waits=not self._is_async)
        else:
            single = SingleOutput(self, epoch, message, topic, value, key, headers, size)
            self.book.add_single(single, waits=not self._is_async)

    def post_result(self, message: Message, result: object) -> None:
        """Send what a call for a record, or a batch, has returned. May wait for room."""
        claim = self.claim_of(message)
        if outputs := self._outputs(claim, message, result):
            self.book.add(claim, outputs)

    def take(self, record: Any, result: object) -> None:
        """Send what a handler returned for a record, or a batch. May wait for room."""
        if result is not None:
            self.post_result(engines_own(record), result)

    async def take_async(self, record: Any, result: object, *, ends_the_call: bool = False) -> None:
        """Do the same as `take` without holding up the loop.

        With `ends_the_call` one value of a call that sent nothing else needs no claim: see `calling`.
        """
        if result is None:
            return
        message = engines_own(record)
        claim = self.claim_of(message)
        is_plain = ends_the_call and type(result) in PLAIN and not (claim.posted or self.before_next)
        outputs = () if is_plain else self._outputs(claim, message, result)
        # Any thread makes room, and a loop's event is for its own.
        while not (  # noqa: ASYNC110
            self.book.has_room() or claim.has_ended or self.book.is_closed
        ):
            await asyncio.sleep(ROOM_CHECK_S)
        if is_plain:
            self.post_plain(claim.inputs[0][0], message, result)
        elif outputs:
            self.book.add(claim, outputs, waits=False)

    def claim_of(self, message: Any) -> Claim:
        """Return the claim of a record's call. Raises `RuntimeError` where none runs for it."""
        claim = self._open_claim(message)
        if claim is None:
            raise self.maker.no_record()
        return claim

    def _open_claim(self, message: Any) -> Claim | None:
        """Return the claim of a record's call, which is made here where there is none yet."""
        place = id(message)
        with self._claiming:
            claim = self.open_calls.get(place)
            if claim is None and (epoch := self.begun.get(place)) is not None:
                claim = self.begin(epoch, message, 1)
                # Last: who finds it gone finds the claim, once it has the lock.
                if self.begun.pop(place, None) is None:
                    # Its call has returned meanwhile.
                    del self.open_calls[place]
                    return None
            return claim

    def send(self, message: Any, value: Any, **given: Any) -> None:
        """Send for a record at once, from within its call. Raises `RuntimeError` where that is over."""
        message = engines_own(message)
        claim = self._open_claim(message)
        if claim is None or (claim.token is not None and not claim.token.is_open):
            where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
            raise RuntimeError(
                f"{where} has its outcome, so nothing can be sent for it any more: call send() before the "
                "handler returns, or before the token of defer() is answered"
            )
        self.book.add(claim, self._outputs(claim, message, Send(value, **given)), waits=not self._is_async)

    def post(self, claim: Claim, made: Iterable[Made]) -> None:
        """Send what was made of a record elsewhere. May wait for room; raises `NotSentError`."""
        self.book.add(claim, [Output(claim, *one) for one in made])

    def returned(self, claim: Claim) -> None:
        """Note that a call has returned; called before its record ends."""
        if DEFERRED and not isinstance(claim.messages, list):
            token = DEFERRED.get(id(claim.messages))
            if token is not None and self.before_next:
                self.failed(claim)
                raise RuntimeError(
                    f"{claim.where} is deferred, but handler {self.maker.handler!r} has "
                    "acknowledged='before_next', which waits for outputs when the handler returns: leave out "
                    "one of the two"
                )
            if token is not None:
                claim.token = token
                self._deferred.append(claim)
                self._sweep()
                return
        self._close(claim)
        if self.before_next and claim.unsettled:
            self._wait_for(claim)
        elif self.in_vain.claims:
            self.in_vain.end(claim)

    def failed(self, claim: Claim) -> None:
        """Note that a call has raised: what it sent is sent and a retry sends it again, unless it is void."""
        claim.has_failed = True
        self._close(claim)
        if claim.posted:
            self.in_vain.note(claim)
            self._say_in_vain(claim)

    def _say_in_vain(self, claim: Claim) -> None:
        if self._report is not None:
            self._emit(self._report(claim))

    def _wait_for(self, claim: Claim) -> None:
        """Leave the record in flight until its outputs are safe, so that its key's next one waits."""
        token = defer(claim.messages, DEADLINE_S_MAX)

        def refused(error: BaseException) -> None:
            self.in_vain.note(claim)
            token.fail(error)

        def finish() -> None:
            self.in_vain.end(claim)
            token.finish()

        claim.on_refused = refused
        if not self.book.when_settled(claim, finish):
            finish()

    def _close(self, claim: Claim) -> None:
        claim.is_over = True
        if not isinstance(claim.messages, list):
            self.open_calls.pop(id(claim.messages), None)
            return
        for message in claim.messages:
            self.open_calls.pop(id(message), None)
        self.open_calls.pop(id(claim.batch), None)

    def _sweep(self) -> None:
        if len(self._deferred) < self._deferred_max or not self._sweeping.acquire(blocking=False):
            return
        try:
            for _ in range(len(self._deferred)):
                claim = self._deferred.popleft()
                if self._still_deferred(claim):
                    self._deferred.append(claim)
            self._deferred_max = max(DEFERRED_MIN, 2 * len(self._deferred))
        finally:
            self._sweeping.release()

    def _still_deferred(self, claim: Claim) -> bool:
        if claim.token is not None and claim.token.is_open:
            return True
        if not claim.is_over and self.open_calls.get(id(claim.messages)) is claim:
            self._close(claim)
        return False

    def _outputs(self, claim: Claim, message: Any, result: object) -> Sequence[Output]:
        note = self._note_kind if self._shared else None
        if type(result) in PLAIN:
            return (Output(claim, *self.maker.plain(message, result, note)),)
        home = claim.home_of(message)
        return [Output(claim, *one, home) for one in self.maker.made(message, result, note)]

    def _note_kind(self, topic: str, given: object) -> None:
        if topic in self._shared and (kind := kind_of(given)) is not None:
            self.note_kind(topic, kind)

    def note_kind(self, topic: str, kind: str) -> None:
        """Note what kind of values a call sends to a topic. Any worker, or for one in its process."""
        if topic in self._shared and self._kinds is not None and (topic, kind) not in self._noted:
            self._noted.add((topic, kind))
            self._kinds.note(topic, self.maker.handler, kind)
