"""Steering: the actions of one run, and the list of what they are for.

Asked by any thread, done on the poll thread (`intake.by_hand`): keys and the client are its to command. What
a preview says is read there, too, so that it is what the action would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.errors import ActionRefusedError, ConfigurationError
from ehkafka.events import ActionRefused, ActionTaken
from ehkafka.lanes.order import describe_key
from ehkafka.run.resizing import named_route
from ehkafka.run.steer.action import Action, ActionResult, refused
from ehkafka.run.steer.key_actions import KeyActions
from ehkafka.run.steer.keys import KeyState, blocking, on_hold
from ehkafka.run.steer.names import parse_partition, partition_name
from ehkafka.run.steer.pausing import Paused, Pausing
from ehkafka.wording import seconds
from ehkafka.wording.line import records as counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.intake.by_hand import ByHand
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route

# How long an action waits for a turn of the poll loop.
ACT_S: Final = 5.0
LISTED_MAX: Final = 1_000


class Steering:
    """`act` and the lists from any thread, `check` on the poll thread."""

    def __init__(
        self,
        context: IntakeContext,
        routes: Sequence[Route],
        by_hand: ByHand,
        *,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        self._context = context
        self._routes = tuple(routes)
        self._by_hand = by_hand
        self._emit = emit
        self._pausing = Pausing(context, self._routes, by_hand)
        self._keys = KeyActions(context, self._pausing, emit=emit, history=history)
        by_hand.then = self.check

    def keys(self, *, values: bool = False, limit: int = LISTED_MAX) -> list[KeyState]:
        """Return the keys that hold a commit, the oldest first, then others that wait by themselves."""
        others = on_hold(self._context, self._routes, limit)
        holding = blocking(self._context, values=values)
        seen = {one.name for one in holding}
        return holding + [one for one in others if one.name not in seen]

    def act(self, action: Action, timeout_s: float = ACT_S) -> ActionResult:
        """Carry an action out, or say what it would do. Raises `ActionRefusedError`: nothing has changed."""
        try:
            action.check()
            result: ActionResult = self._by_hand.call(lambda: self._act(action), timeout_s)
        except ActionRefusedError as error:
            what = (action.do, action.target, action.name, action.by)
            self._emit(ActionRefused(*what, error.reason, str(error)))
            raise
        if not action.preview:
            what = (action.do, action.target, result.name, action.by)
            self._emit(ActionTaken(*what, result.changed, result.text))
        return result

    def check(self) -> None:
        """End pauses whose time is over; have new assignments take over what is kept."""
        for one in self._pausing.check():
            name = describe_key(one.key) if one.is_key else str(one.partition)
            target = "key" if one.is_key else "partition"
            text = f"the pause of {target} {name} has ended"
            self._emit(ActionTaken("resume", target, name, "the pause's own time", True, text))

    def _act(self, action: Action) -> ActionResult:
        if action.target == "handler":
            return self._act_on_handler(action)
        if action.target == "partition":
            return self._act_on_partition(action)
        return self._keys.act(action)

    def _act_on_partition(self, action: Action) -> ActionResult:
        partition = parse_partition(action.name)
        if partition is None:
            raise refused("invalid", f"{action.name!r} is not a partition: give TOPIC/PARTITION.")
        route = self._keys.owned(partition).route
        name = partition_name(partition)
        paused = Paused(route.name, partition, None, is_key=False)
        was_paused = self._pausing.is_paused(paused)
        if action.do == "resume":
            if self._pausing.is_stopped(route):
                raise refused(
                    "stopped", f"Nothing was done: handler {route.handler!r} is stopped: start it first."
                )
            if not action.preview:
                self._pausing.resume(paused)
            text = f"{name} {action.done('resumed')}" if was_paused else f"{name} was not paused by an action"
            return ActionResult(f"{text}.", was_paused, name, is_preview=action.preview)
        if not action.preview:
            self._pausing.pause(paused, action.for_s, keep=action.keep)
        wait = f" for {seconds(action.for_s)}" if action.for_s is not None else ""
        paused_text = action.done("paused")
        text = (
            f"{name} {paused_text}{wait}: the app receives no more records of the partition, but handles "
            f"those already received"
        )
        return ActionResult(f"{text}.", not was_paused, name, is_preview=action.preview)

    def _act_on_handler(self, action: Action) -> ActionResult:
        try:
            route = named_route(self._routes, action.name, "Nothing was done")
        except ConfigurationError as error:
            raise refused("unknown", str(error)) from None
        is_stopped, stops = self._pausing.is_stopped(route), action.do == "stop"
        changed = is_stopped is not stops
        if changed and not action.preview:
            (self._pausing.stop if stops else self._pausing.start)(route)
        left = counted(route.hub.tally.unfinished_records)
        text = f"handler {route.handler} " + ("is stopped already" if stops else "was not stopped")
        if changed:
            how = ": running calls end, and no new call starts" if stops else ""
            verb = action.done("stopped" if stops else "started")
            text = f"handler {route.handler} {verb}{how}; {left} queued"
        return ActionResult(f"{text}.", changed, route.handler, is_preview=action.preview)
