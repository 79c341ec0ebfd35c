"""Carries out actions on keys. Poll thread only."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.events import RecordSkipped
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.run.steer.action import ActionResult, refused
from ehkafka.run.steer.finding import described
from ehkafka.run.steer.names import head_name, key_text, keys_meant, keys_named, parse_head
from ehkafka.run.steer.pauses import Paused
from ehkafka.run.steer.refusals import no_letters
from ehkafka.wording import seconds
from ehkafka.wording.line import records as counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.intake.context import IntakeContext
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.waiting import Waiting
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.action import Action
    from ehkafka.run.steer.finding import Finder
    from ehkafka.run.steer.names import Found
    from ehkafka.run.steer.pausing import Pausing


class KeyActions:
    """Pause, resume, retry, skip and dead-letter."""

    def __init__(
        self,
        context: IntakeContext,
        finder: Finder,
        pausing: Pausing,
        *,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        self._context = context
        self._finder = finder
        self._pausing = pausing
        self._emit = emit
        self._history = history

    def act(self, action: Action) -> ActionResult:
        """Do it. Raises `ActionRefusedError`: then nothing has changed."""
        if action.do == "resume" and (paused := self._paused_by_text(action.name)) is not None:
            return self._resume_by_text(action, paused)
        found = self._finder.find(action)
        self._check_head(action, found)
        match action.do:
            case "pause":
                return self._pause(action, found)
            case "resume":
                return self._resume_paused(action, _paused(found), found.name, len(found.records))
            case "retry":
                return self._retry(action, found)
            case "skip":
                return self._skip(action, found)
        return self._dead_letter(action, found)

    @staticmethod
    def _check_head(action: Action, found: Found) -> None:
        if action.offset is not None and found.offset != action.offset:
            raise refused(
                "moved",
                f"Nothing was done: the head of the key is {found.name} by now, not offset {action.offset}.",
                (found.name,),
            )

    def _pause(self, action: Action, found: Found) -> ActionResult:
        wait = f" for {seconds(action.for_s)}" if action.for_s is not None else ""
        kept = ", also after a rebalance" if action.keep else ""
        count = len(found.records)
        text = f"{described(found)} {action.done('paused')}{wait}{kept}; {counted(count)} of it in line"
        paused = _paused(found)
        changed = not self._pausing.is_paused(paused)
        if not action.preview:
            self._pausing.pause(paused, action.for_s, keep=action.keep)
        return _result(action, found.name, text, count, changed=changed)

    def _paused_by_text(self, name: str) -> Paused | None:
        """Return the one paused key of that text, whether it has a record here now or not.

        Others of the text that are not paused cannot be meant.
        """
        if parse_head(name) is not None:
            return None
        meant = keys_meant(name)
        known = [
            one
            for one in self._pausing.paused_keys()
            if (one.key in meant or key_text(one.key) == name) and self._pausing.is_paused(one)
        ]
        return known[0] if len(known) == 1 else None

    def _resume_by_text(self, action: Action, paused: Paused) -> ActionResult:
        its = [one for one in keys_named(self._context.owned, action.name) if _paused(one) == paused]
        if not its:
            return self._resume_paused(action, paused, action.name, 0)
        self._check_head(action, its[0])
        return self._resume_paused(action, paused, its[0].name, len(its[0].records))

    def _resume_paused(self, action: Action, paused: Paused, name: str, count: int) -> ActionResult:
        is_paused = self._pausing.is_paused(paused)
        if not action.preview:
            self._pausing.resume(paused)
        key = describe_key(paused.key)
        text = f"key {key} {action.goes('on')}" if is_paused else f"key {key} was not paused"
        return _result(action, name, text, count, changed=is_paused)

    def _retry(self, action: Action, found: Found) -> ActionResult:
        status, where = self._finder.seen(found).status, described(found)
        if status in ("running", "queued"):
            return _result(action, found.name, f"{where} is {status} already", 1, changed=False)
        if status == "paused" or (status in ("waiting", "held") and self._finder.is_paused(found)):
            raise refused("paused", f"Nothing was done: {where} is paused; resume it.", (found.name,))
        self._finder.must_wait(found)
        if not action.preview:
            with self._waiting(found) as waiting:
                waiting.retry_key(found.key, found.epoch)
        retried = action.done("retried")
        return _result(action, found.name, f"{where} {retried} without waiting any longer", 1)

    def _skip(self, action: Action, found: Found) -> ActionResult:
        if (call := self._finder.seen(found).call) is not None:
            return self._end_wait(action, found, call)
        self._finder.must_wait(found)
        heads = self._finder.heads(found, all_of_it=action.all)
        text = f"{described(found)} {action.done('skipped')}{_more(len(heads))}"
        if not action.preview:
            self._note_skipped(action, found, heads)
            with self._waiting(found) as waiting:
                waiting.skip_key(found.key, found.epoch, len(heads))
        return _result(action, found.name, text, len(heads))

    def _end_wait(self, action: Action, found: Found, call: Entry) -> ActionResult:
        """Let a key continue that waits for a call of an ended epoch; skip its record, if it is the head."""
        is_its = (call[EPOCH].partition, call[MESSAGE].offset()) == (found.epoch.partition, found.offset)
        heads = self._finder.heads(found, all_of_it=action.all) if is_its or action.all else []
        left = head_name(call[EPOCH].partition, call[MESSAGE].offset())
        skipped = f" {action.done('skipped')}{_more(len(heads))};" if heads else ":"
        text = (
            f"{described(found)}{skipped} its key {action.goes('on')}, though the call of {left} for an "
            "assignment that has ended still runs"
        )
        if not action.preview:
            # First paused, so that nothing of the key starts in between.
            with found.route.hub.locked() as inboxes:
                was_paused = not inboxes.waiting.pause_key(found.key, found.epoch)
            self._note_skipped(action, found, heads)
            with found.route.hub.locked() as inboxes:
                inboxes.outliving.free_key(found.key, found.epoch)
                if heads:
                    inboxes.waiting.skip_key(found.key, found.epoch, len(heads))
                if not was_paused:
                    inboxes.waiting.resume_key(found.key, found.epoch)
        return _result(action, found.name, text, len(heads))

    def _note_skipped(
        self, action: Action, found: Found, heads: list[tuple[TopicPartition, int, int]]
    ) -> None:
        """Write skipped records to the history and report them, before they are skipped.

        No later record of the key may start, or be committed, before they are in the history. Only this
        thread lets a waiting key continue, so skipped they will be.
        """
        attempt = max(1, self._finder.seen(found).attempts)
        for partition, epoch, offset in heads:
            if self._history is not None:
                self._history.finished(partition, epoch, offset, users_key(found.key), attempt, "skipped")
            reason = f"by hand, asked for by {action.by}"
            self._emit(RecordSkipped(partition, offset, describe_key(found.key), attempt, reason))

    def _dead_letter(self, action: Action, found: Found) -> ActionResult:
        if found.route.hub.inboxes.waiting.divert is None:
            raise refused(
                "no_dead_letter", f"Nothing was done: {described(found)} {no_letters(found.route.handler)}"
            )
        self._finder.must_wait(found)
        count = len(self._finder.heads(found, all_of_it=action.all))
        if not action.preview:
            with self._waiting(found) as waiting:
                held = waiting.find(found.key, found.epoch)
                assert held is not None
                waiting.send_by_hand(held, f"by hand, asked for by {action.by}", count)
        goes = action.goes("to the dead letters")
        return _result(action, found.name, f"{described(found)} {goes}{_more(count)}", count)

    @contextmanager
    def _waiting(self, found: Found) -> Iterator[Waiting]:
        """Give the waiting keys, with this one among them: also where its whole handler is stopped."""
        with found.route.hub.locked() as inboxes:
            waiting = inboxes.waiting
            pauses = waiting.find(found.key, found.epoch) is None
            if pauses:
                waiting.pause_key(found.key, found.epoch)
            yield waiting
            if pauses:
                waiting.resume_key(found.key, found.epoch)


def _paused(found: Found) -> Paused:
    is_shared = found.route.hub.inboxes.router.shared is not None
    partition = None if is_shared else found.epoch.partition
    return Paused(found.route.name, partition, found.key, is_key=True)


def _more(count: int) -> str:
    return f", and {counted(count - 1)} of its key behind it" if count > 1 else ""


def _result(action: Action, name: str, text: str, count: int, *, changed: bool = True) -> ActionResult:
    return ActionResult(f"{text}.", changed, name, count, action.preview)
