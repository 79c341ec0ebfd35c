"""Finds the key that an action is about, and carries the action out, or refuses it. Poll thread only."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.events import RecordSkipped
from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.seen import InboxesSeen
from ehkafka.lanes.user_keys import users_key
from ehkafka.run.steer.action import WHY_NOT, ActionResult, no_letters, refused
from ehkafka.run.steer.names import (
    FoundKey,
    head_name,
    key_at,
    key_text,
    keys_meant,
    keys_named,
    only_one,
    parse_head,
    partition_name,
)
from ehkafka.run.steer.pausing import Paused
from ehkafka.wording import seconds
from ehkafka.wording.line import records as counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.owned import OwnedPartition
    from ehkafka.lanes.inbox import Entry
    from ehkafka.lanes.seen import RecordSeen
    from ehkafka.lanes.waiting import WaitingKeys
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.action import Action
    from ehkafka.run.steer.pausing import Pausing


class KeyActions:
    """Pause, resume, retry, skip and dead-letter."""

    def __init__(
        self,
        context: IntakeContext,
        pausing: Pausing,
        *,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        self._context = context
        self._pausing = pausing
        self._emit = emit
        self._history = history

    def act(self, action: Action) -> ActionResult:
        """Do it. Raises `ActionRefusedError`: then nothing has changed."""
        if action.do == "resume" and (paused := self._paused_by_text(action.name)) is not None:
            return self._resume_by_text(action, paused)
        found = self._find(action)
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
    def _check_head(action: Action, found: FoundKey) -> None:
        if action.offset is not None and found.offset != action.offset:
            raise refused(
                "moved",
                f"Nothing was done: the key's first record is now {found.name}, not offset "
                f"{action.offset}: repeat the action with the new name.",
                (found.name,),
            )

    def _pause(self, action: Action, found: FoundKey) -> ActionResult:
        wait = f" for {seconds(action.for_s)}" if action.for_s is not None else ""
        kept = ", also after a rebalance" if action.keep else ""
        count = len(found.records)
        text = f"{_described(found)} {action.done('paused')}{wait}{kept}; {counted(count)} of the key queued"
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
        text = f"key {key} {action.done('resumed')}" if is_paused else f"key {key} was not paused"
        return _result(action, name, text, count, changed=is_paused)

    def _retry(self, action: Action, found: FoundKey) -> ActionResult:
        status, where = self._seen(found).status, _described(found)
        if status in ("running", "queued"):
            return _result(action, found.name, f"{where} is {status} already", 1, changed=False)
        is_paused = status in ("waiting: retry", "waiting: on hold") and self._is_paused(found)
        if status == "waiting: paused" or is_paused:
            raise refused(
                "paused", f"Nothing was done: {where} is paused: resume its key first.", (found.name,)
            )
        self._must_wait(found)
        if not action.preview:
            with self._waiting(found) as waiting:
                waiting.retry_key(found.key, found.epoch)
        retried = action.done("retried")
        return _result(action, found.name, f"{where} {retried} at once", 1)

    def _skip(self, action: Action, found: FoundKey) -> ActionResult:
        if (call := self._seen(found).call) is not None:
            return self._end_wait(action, found, call)
        self._must_wait(found)
        heads = self._heads(found, all_of_it=action.all)
        text = f"{_described(found)} {action.done('skipped')}{_more(len(heads))}"
        if not action.preview:
            self._note_skipped(action, found, heads)
            with self._waiting(found) as waiting:
                waiting.skip_key(found.key, found.epoch, len(heads))
        return _result(action, found.name, text, len(heads))

    def _end_wait(self, action: Action, found: FoundKey, call: Entry) -> ActionResult:
        """Let a key continue that waits for a call of an ended epoch; skip its record, if it is the head."""
        is_its = (call[EPOCH].partition, call[MESSAGE].offset()) == (found.epoch.partition, found.offset)
        heads = self._heads(found, all_of_it=action.all) if is_its or action.all else []
        left = head_name(call[EPOCH].partition, call[MESSAGE].offset())
        skipped = f" {action.done('skipped')}{_more(len(heads))};" if heads else ":"
        text = (
            f"{_described(found)}{skipped} the key {action.done('resumed')}, although the handler call of "
            f"{left} from an earlier assignment still runs"
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
        self, action: Action, found: FoundKey, heads: list[tuple[TopicPartition, int, int]]
    ) -> None:
        """Write skipped records to the history and report them, before they are skipped.

        No later record of the key may start, or be committed, before they are in the history. Only this
        thread lets a waiting key continue, so skipped they will be.
        """
        attempt = max(1, self._seen(found).attempts)
        for partition, epoch, offset in heads:
            if self._history is not None:
                self._history.finished(partition, epoch, offset, users_key(found.key), attempt, "skipped")
            reason = f"by hand, requested by {action.by}"
            self._emit(RecordSkipped(partition, offset, describe_key(found.key), attempt, reason))

    def _dead_letter(self, action: Action, found: FoundKey) -> ActionResult:
        if found.route.hub.inboxes.waiting.divert is None:
            raise refused(
                "no_dead_letter", f"Nothing was done: {_described(found)} {no_letters(found.route.handler)}"
            )
        self._must_wait(found)
        count = len(self._heads(found, all_of_it=action.all))
        if not action.preview:
            with self._waiting(found) as waiting:
                held = waiting.find(found.key, found.epoch)
                assert held is not None
                waiting.send_by_hand(held, f"by hand, requested by {action.by}", count)
        goes = action.goes("to the dead letters")
        return _result(action, found.name, f"{_described(found)} {goes}{_more(count)}", count)

    @contextmanager
    def _waiting(self, found: FoundKey) -> Iterator[WaitingKeys]:
        """Give the waiting keys, with this one among them: also where its whole handler is stopped."""
        with found.route.hub.locked() as inboxes:
            waiting = inboxes.waiting
            pauses = waiting.find(found.key, found.epoch) is None
            if pauses:
                waiting.pause_key(found.key, found.epoch)
            yield waiting
            if pauses:
                waiting.resume_key(found.key, found.epoch)

    # --- what an action is about -------------------------------------------------------------------

    def _find(self, action: Action) -> FoundKey:
        """Return the key that an action names. Raises `ActionRefusedError`."""
        head = parse_head(action.name)
        if head is None:
            return only_one(keys_named(self._context.owned, action.name), action.name)
        partition, offset = head
        owned = self.owned(partition)
        found = key_at(owned, offset)
        if found is None:
            raise refused("moved", self._where_it_is(owned, offset))
        return found

    def _where_it_is(self, owned: OwnedPartition, offset: int) -> str:
        epoch = owned.epoch
        with owned.route.hub.locked():
            watermark, received = epoch.watermark(), epoch.received.next_offset
            unfinished = {entry[MESSAGE].offset() for entry in epoch.unfinished()}
        name = f"{partition_name(epoch.partition)}@{offset}"
        if offset in unfinished:
            return f"Nothing was done: {name} is not the first record of its key."
        if received is None or offset >= received:
            return f"Nothing was done: {name} has not been received yet."
        return f"Nothing was done: {name} is already finished, as are all records below offset {watermark}."

    def owned(self, partition: TopicPartition) -> OwnedPartition:
        """Return a partition of ours. Raises `ActionRefusedError` for another one."""
        owned = self._context.owned.get(partition)
        if owned is None:
            ours = ", ".join(map(partition_name, sorted(self._context.owned)[:20])) or "none"
            raise refused(
                "elsewhere",
                f"{partition_name(partition)} is not with this member, which has {ours}. Run "
                f"ehkafka owners to find the partition's owner.",
            )
        return owned

    def _seen(self, found: FoundKey) -> RecordSeen:
        """Return what the key's first record does now."""
        with found.route.hub.locked() as inboxes:
            return InboxesSeen(inboxes).record(found.head)

    def _is_paused(self, found: FoundKey) -> bool:
        """Tell whether nothing of the key may start: it is paused by hand, or its handler is stopped."""
        with found.route.hub.locked() as inboxes:
            held = inboxes.waiting.find(found.key, found.epoch)
            return inboxes.router.piles.stopped is not None or (held is not None and held.is_paused)

    @staticmethod
    def _heads(found: FoundKey, *, all_of_it: bool) -> list[tuple[TopicPartition, int, int]]:
        """Return partition, epoch and offset of the records that an action takes."""
        return [
            (entry[EPOCH].partition, entry[EPOCH].number, entry[MESSAGE].offset())
            for entry in (found.records if all_of_it else found.records[:1])
        ]

    def _must_wait(self, found: FoundKey) -> None:
        """Refuse what is done only to a head that waits. Raises `ActionRefusedError`."""
        status = self._seen(found).status
        if (why := WHY_NOT.get(status)) is not None:
            reason = "running" if status == "waiting: your answer" else status.partition(":")[0]
            where, mark = _described(found), found.epoch.received.batches.at(found.offset)
            if mark is not None:
                where += f", received {seconds(self._context.clock() - mark.received_at_s)} ago,"
            raise refused(reason, f"Nothing was done: {where} {why}", (found.name,))


def _described(found: FoundKey) -> str:
    """Return a found key in words. Not under a lock: it may run code of the user's."""
    return f"{found.name} (key {describe_key(found.key)})"


def _paused(found: FoundKey) -> Paused:
    is_shared = found.route.hub.inboxes.router.shared is not None
    partition = None if is_shared else found.epoch.partition
    return Paused(found.route.name, partition, found.key, is_key=True)


def _more(count: int) -> str:
    return f", and the next {counted(count - 1)} of the key" if count > 1 else ""


def _result(action: Action, name: str, text: str, count: int, *, changed: bool = True) -> ActionResult:
    return ActionResult(f"{text}.", changed, name, count, action.preview)
