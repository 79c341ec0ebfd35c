"""The failure desk: decides what becomes of a record whose handler raised.

On the worker's thread, before the lane is handed in, so user code runs neither on the poll thread nor
under the lock. It never raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.errors import HandlerFailedError, said
from ehkafka.events import HandlerFailed, UserCodeFailed
from ehkafka.lanes.order import describe_key
from ehkafka.records import Record
from ehkafka.recovery.decision import HoldHead
from ehkafka.recovery.policy import FailurePolicy, Hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.events import Event
    from ehkafka.lanes.lane import Lane
    from ehkafka.recovery.decision import Decision

# What `App.on_error` may answer; None leaves it to the failure policy.
CONTINUE = "continue"
STOP = "stop"


class FailureDesk:
    """Applies one handler's failure policy. Called by any worker."""

    def __init__(
        self,
        handler: str,
        policy: FailurePolicy,
        *,
        emit: Callable[[Event], None],
        fatal: Callable[[EhkafkaError], None],
        ask: Callable[..., Any] | None,
        raw: bool = False,
        make_record: type[Record] = Record,
    ) -> None:
        """`ask` is the user's `on_error(kind, partition, record, error)`."""
        self._handler = handler
        self._policy = policy
        self._emit = emit
        self._fatal = fatal
        self._ask = ask
        self._raw = raw
        self._make_record = make_record

    def __call__(self, lane: Lane, error: BaseException) -> Decision:
        """Return what to do with the head of a lane whose handler raised."""
        stops = self._stops(lane, error)
        stale = lane.assignment.ended
        if stale:
            decision = "it belongs to another member by now"
        elif stops:
            decision = "the app stops"
        else:
            decision = "its key waits, nothing is committed past it"
        reason = said(error)
        key = describe_key(lane.key)
        assert lane.head is not None
        offset, partition = lane.head.offset(), lane.assignment.partition
        self._emit(HandlerFailed(partition, offset, key, lane.attempts + 1, reason, decision))
        if stops and not stale:
            failure = HandlerFailedError(
                f"Handler {self._handler!r} failed at {partition}@{offset}, key {key}, "
                f"attempt {lane.attempts + 1}: {reason}. Nothing at or above this offset of {partition} was "
                "committed; the record is handled again at the next start. Fix the handler or the record, or "
                "choose what failures lead to: on_failure=Hold()."
            )
            failure.__cause__ = error
            self._fatal(failure)
        return HoldHead(reason, stops_app=stops)

    def _stops(self, lane: Lane, error: BaseException) -> bool:
        # SystemExit, KeyboardInterrupt and a process without memory are no verdict on the record.
        if not isinstance(error, Exception) or isinstance(error, MemoryError):
            return True
        answer = self._asked(lane, error) if self._ask is not None else None
        if answer in (CONTINUE, STOP):
            return bool(answer == STOP)
        return not isinstance(self._policy, Hold)

    def _asked(self, lane: Lane, error: Exception) -> Any:
        assert self._ask is not None
        assert lane.head is not None
        record = lane.head if self._raw else self._make_record(lane.head, lane.attempts + 1)
        try:
            return self._ask("handler", lane.assignment.partition, record, error)
        except Exception as failed:
            self._emit(UserCodeFailed("on_error", said(failed)))
            return None
        except BaseException as wish:  # sys.exit() and the like: an answer too
            self._emit(UserCodeFailed("on_error", said(wish)))
            return STOP
