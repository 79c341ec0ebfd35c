"""Objects that belong to another event loop than the one that uses them: what their errors are to add.

asyncio and its clients find that out late and name neither side. Pure.
"""

from __future__ import annotations

from typing import Final

from ehkafka.errors import describe
from ehkafka.wording.error_stack import with_reasons

# As asyncio writes it of futures and of locks, and aiohttp, whose session finds no task on its own loop. A
# client whose loop is closed was opened on an earlier one.
SIGNS: Final = (
    "attached to a different loop",
    "bound to a different event loop",
    "Timeout context manager should be used inside a task",
    "Event loop is closed",
)
HINT: Final = "used an object of another event loop"


def explain_other_loop(error: BaseException, handler: str, *, is_callers: bool) -> None:
    """Add to an error that comes of an object of another loop which handler met it, and what to do.

    A client may have wrapped it. The error stays the object that it is, so that policies see its type.
    """
    if not any(_is_of_other_loop(one) for one in with_reasons(error)):
        return
    args = error.args
    # Its own `__str__` may say something else, or raise.
    is_its_text = len(args) == 1 and type(args[0]) is str and describe(error).endswith(args[0])
    if HINT in (args[0] if is_its_text else "".join(getattr(error, "__notes__", ()))):
        return  # raised again
    remedy = (
        "with App(loop='caller'), handlers run on the loop that entered the app: open the object in the code "
        "with `async with app`"
        if is_callers
        else "the app's handlers run on the app's own loop: make the app with App(loop='caller') and enter "
        "the app by `async with app` where the object was made, or open the object in on_worker_start, which "
        "runs on the handler's loop"
    )
    hint = f"handler {handler!r} {HINT}; {remedy}"
    if is_its_text:
        error.args = (f"{args[0]} ({hint})",)
    else:
        error.add_note(hint)


def _is_of_other_loop(error: BaseException) -> bool:
    return isinstance(error, RuntimeError) and any(sign in describe(error) for sign in SIGNS)
