"""Carries out actions on keys. Poll thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import RecordSkipped
from ehkafka.lanes.lane import SharedLane
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.run.steer.action import ActionResult, refused
from ehkafka.run.steer.finding import described
from ehkafka.run.steer.names import key_text, keys_meant, lanes_of_keys, parse_head
from ehkafka.run.steer.pauses import Paused
from ehkafka.run.steer.refusals import no_letters
from ehkafka.wording import seconds
from ehkafka.wording.line import records as counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.intake.context import IntakeContext
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
                return self._resume_paused(action, _paused(found), found.name, len(found.lane))
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
        count = len(found.lane)
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
        its = [one for one in lanes_of_keys(self._context.owned, action.name) if _paused(one) == paused]
        if not its:
            return self._resume_paused(action, paused, action.name, 0)
        self._check_head(action, its[0])
        return self._resume_paused(action, paused, its[0].name, len(its[0].lane))

    def _resume_paused(self, action: Action, paused: Paused, name: str, count: int) -> ActionResult:
        is_paused = self._pausing.is_paused(paused)
        if not action.preview:
            self._pausing.resume(paused)
        key = describe_key(paused.key)
        text = f"key {key} {action.goes('on')}" if is_paused else f"key {key} was not paused"
        return _result(action, name, text, count, changed=is_paused)

    def _retry(self, action: Action, found: Found) -> ActionResult:
        status, where = self._finder.status(found), described(found)
        if status in ("running", "queued"):
            return _result(action, found.name, f"{where} is {status} already", 1, changed=False)
        if status == "paused" or (status in ("waiting", "held") and self._finder.is_paused(found)):
            raise refused("paused", f"Nothing was done: {where} is paused; resume it.", (found.name,))
        self._finder.must_wait(found)
        if not action.preview:
            with found.route.exchange.locked() as dispatcher:
                dispatcher.holds.retry_key(found.lane.key, found.lane.assignment)
            found.route.exchange.wake_one()
        retried = action.done("retried")
        return _result(action, found.name, f"{where} {retried} without waiting any longer", 1)

    def _skip(self, action: Action, found: Found) -> ActionResult:
        self._finder.must_wait(found)
        heads = self._finder.heads(found, all_of_it=action.all)
        text = f"{described(found)} {action.done('skipped')}{_more(len(heads))}"
        if action.preview:
            return _result(action, found.name, text, len(heads))
        lane, attempt = found.lane, max(1, found.lane.attempts)
        # Before it is done: no later record of the key may start, or be committed, before they are in the
        # history. Nobody but this thread lets a lane on hold go, so done it will be.
        for partition, epoch, offset in heads:
            if self._history is not None:
                what = (partition, epoch, offset, users_key(lane.key), attempt)
                self._history.finished(*what, "skipped")
            self._emit(
                RecordSkipped(
                    partition, offset, describe_key(lane.key), attempt, f"by hand, asked for by {action.by}"
                )
            )
        with found.route.exchange.locked() as dispatcher:
            dispatcher.holds.skip_key(lane.key, found.assignment, len(heads))
        found.route.exchange.wake_one()
        return _result(action, found.name, text, len(heads))

    def _dead_letter(self, action: Action, found: Found) -> ActionResult:
        decisions = found.route.dispatcher.decisions
        if decisions.divert is None:
            raise refused(
                "no_dead_letter", f"Nothing was done: {described(found)} {no_letters(found.route.handler)}"
            )
        self._finder.must_wait(found)
        count = len(self._finder.heads(found, all_of_it=action.all))
        if not action.preview:
            with found.route.exchange.locked():
                decisions.send_by_hand(found.lane, f"by hand, asked for by {action.by}", count)
        goes = action.goes("to the dead letters")
        return _result(action, found.name, f"{described(found)} {goes}{_more(count)}", count)


def _paused(found: Found) -> Paused:
    partition = None if isinstance(found.lane, SharedLane) else found.assignment.partition
    return Paused(found.route.name, partition, found.lane.key, is_key=True)


def _more(count: int) -> str:
    return f", and {counted(count - 1)} of its key behind it" if count > 1 else ""


def _result(action: Action, name: str, text: str, count: int, *, changed: bool = True) -> ActionResult:
    return ActionResult(f"{text}.", changed, name, count, action.preview)
