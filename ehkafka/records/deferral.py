"""Deferring a record: its handler returns, and other code reports later how the attempt ended.

Values that `Record` uses, so nothing of the engine is imported here. `defer` puts a token into `DEFERRED`,
where the worker finds it when the handler has returned; while no handler defers, that costs a worker one look
at an empty dict. What becomes of an answer is `recovery.pending`'s.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from ehkafka.records.message import Message

DEADLINE_S = 300.0
# A deadline later than this is a mistake of units: no app keeps a partition's commit back for a week.
DEADLINE_S_MAX = 7 * 24 * 3600.0
# Records whose handlers have not returned yet. More than there are workers: `defer` is called elsewhere.
WAITING_MAX = 100_000

State = Literal["open", "answered", "void", "expired"]


class Home(Protocol):
    """Where a token's answers go once its handler has returned or raised. Called on the answering thread."""

    def answered(self, error: BaseException | None, /) -> None:
        """Take the answer that counts; None: finished."""

    def late(self, state: State, /) -> None:
        """Hear of an answer that counts for nothing."""


class Restorable(Protocol):
    """Makes a message as it was received, before its handler could set anything in it."""

    def restore(self) -> None:
        """Make the message that again."""


class Keeper(Protocol):
    """Knows the records of one handler."""

    def is_handling(self, message: Message, /) -> bool | None:
        """Tell whether a record is with its handler now; None where that is not known. Any thread."""


class Deferred:
    """A token with which your code reports how a deferred record's attempt ended. Made by `defer`.

    Answer once, from any thread or task. The first answer counts, and later answers are ignored. Both methods
    return whether their answer counted; an answer that comes too late raises no error.
    """

    __slots__ = (
        "_home",
        "_lock",
        "deadline_s",
        "error",
        "expires_at_s",
        "is_reported",
        "message",
        "received",
        "state",
    )

    def __init__(self, message: Message, deadline_s: float, now_s: float) -> None:
        # Keeps the message, too: the registry knows it by its `id`, which must not be another's meanwhile.
        self.message = message
        # What the message was before its handler had it, where that is given the message itself. Set by who
        # called the handler, once that has returned.
        self.received: Restorable | None = None
        self.deadline_s = deadline_s
        self.expires_at_s = now_s + deadline_s
        self.error: BaseException | None = None
        # Written under the lock.
        self.state: State = "open"
        # Set once it was logged that this token is of no use any more.
        self.is_reported = False
        self._home: Home | None = None
        self._lock = threading.Lock()

    def finish(self) -> bool:
        """Finish the record, so that the commit can move past it. Returns False if that came too late."""
        return self._answer(None)

    def fail(self, error: BaseException) -> bool:
        """Fail the attempt, as if the handler had raised `error`: retries and `on_failure` apply.

        The retry function and `on_error` run on the calling thread. Returns False if that came too late.

        - `error` (required): the exception. `RetryLater`, `SkipRecord` and `RejectRecord` have the same
          effect as in a handler.
        """
        if not isinstance(error, BaseException):
            raise TypeError(
                f"Deferred.fail(error={error!r}) is not an exception: give the exception with "
                f"which the record failed"
            )
        return self._answer(error)

    @property
    def is_open(self) -> bool:
        """True until the token is answered, its deadline has passed, or the handler has raised an error."""
        return self.state == "open"

    def settle_at(self, home: Home) -> bool:
        """Inner: send the answer to `home` from now on; False when it is there already."""
        with self._lock:
            self._home = home
            return self.state == "open"

    def close(self, state: State, home: Home | None = None) -> bool:
        """Inner: take no answer any more, and let `home` hear of later ones; False when there was one."""
        with self._lock:
            self._home = home or self._home
            was_open = self.state == "open"
            if was_open:
                self.state = state
            return was_open

    def _answer(self, error: BaseException | None) -> bool:
        with self._lock:
            counts = self.state == "open"
            home = self._home
            if counts:
                self.state, self.error = "answered", error
            elif self.state == "answered" or self.is_reported:
                return False
            else:
                self.is_reported = True
        if home is not None and counts:
            home.answered(error)
        elif home is not None:
            home.late(self.state)
        return counts

    def __repr__(self) -> str:
        message = self.message
        where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
        return f"<Deferred {where} {self.state}>"


# Tokens of records whose handlers have not returned yet, by the message's `id`. `defer` adds, the record's
# worker takes out; each step is one atomic operation of the dict.
DEFERRED: dict[int, Deferred] = {}
# Who can tell whether a record is with its handler: one for each handler of a run. Replaced, never changed.
_keepers: tuple[weakref.ref[Keeper], ...] = ()
_keepers_lock = threading.Lock()
# Why nothing can be deferred in this process; a child that runs handlers sets it.
_refusal: str | None = None


def defer(message: Message, deadline_s: float = DEADLINE_S) -> Deferred:
    """Keep a record unfinished after its handler returns, until your code answers the returned token.

    For handlers with `raw=True`; others call `record.defer()`. Until the answer, the key waits, no worker is
    busy, and the commit does not pass the record. If the handler raises an error, the token has no effect.

    - `message` (required): the message that the handler was given.
    - `deadline_s` (seconds, default `300.0`): if no answer comes within this time, the attempt fails with a
      `TimeoutError`; up to a week.

    Raises `ValueError` for a deadline that is not possible. Raises `RuntimeError` if the record is already
    deferred, cannot be deferred, or is not with its handler.
    """
    is_number = isinstance(deadline_s, int | float) and not isinstance(deadline_s, bool)
    if not is_number or not math.isfinite(deadline_s) or not 0 < deadline_s <= DEADLINE_S_MAX:
        raise ValueError(
            f"defer(deadline_s={deadline_s!r}): give a number of seconds above 0, up to {DEADLINE_S_MAX:.0f}"
        )
    if _refusal is not None:
        raise RuntimeError(_refusal)
    message = engines_own(message)
    if len(DEFERRED) >= WAITING_MAX:
        raise RuntimeError(
            f"{WAITING_MAX} records are deferred whose handlers have not returned; call defer() only within "
            "the record's own handler"
        )
    known = [keeper.is_handling(message) for one in _keepers if (keeper := one()) is not None]
    if False in known and True not in known:
        where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
        raise RuntimeError(
            f"{where} has left its handler or is already deferred, so no token can be made. Call defer() "
            f"once, before the handler returns"
        )
    token = Deferred(message, float(deadline_s), time.monotonic())
    if DEFERRED.setdefault(id(message), token) is not token:
        raise RuntimeError("the record is already deferred: use the token of the first defer()")
    return token


def add_keeper(keeper: Keeper) -> None:
    """Ask `keeper`, while it lives, about each record that is to be deferred. Before its run starts."""
    global _keepers  # noqa: PLW0603 - one list of the whole process
    with _keepers_lock:
        _keepers = (*(one for one in _keepers if one() is not None), weakref.ref(keeper))


def drop_keeper(keeper: Keeper) -> None:
    """Ask `keeper` no more: its run has ended, and what it asks may be slow code of the user's."""
    global _keepers  # noqa: PLW0603 - see `add_keeper`
    with _keepers_lock:
        _keepers = tuple(one for one in _keepers if one() not in (None, keeper))


def refuse_to_defer(reason: str) -> None:
    """Let every later `defer` in this process raise `RuntimeError(reason)`."""
    global _refusal  # noqa: PLW0603 - one fact of the whole process
    _refusal = reason


def engines_own(message: object) -> Any:
    """Return the engine's own message of what a handler has: a record, its copy, or the message itself."""
    message = getattr(message, "_message", message)
    return getattr(message, "received", message)


def is_deferred(message: object) -> bool:
    """Tell, inside a handler's call, whether its record was deferred."""
    return bool(DEFERRED) and id(engines_own(message)) in DEFERRED
