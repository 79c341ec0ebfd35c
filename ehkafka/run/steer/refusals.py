"""What cannot be done to a key as it is, and why: actions refuse it, and pages grey its buttons. Pure."""

from __future__ import annotations

from typing import Final

_ONLY: Final = "only what does not run can be retried, skipped or sent away"
# By the status of the key's head. Of any other it waits, and can be acted upon.
WHY_NOT: Final = {
    "queued": "waits for a worker and will run. Pause its key first.",
    "running": f"is with its handler: {_ONLY}. For a call that never returns there is ehkafka offsets skip.",
    "deferred": f"waits for an answer: {_ONLY}.",
    "behind": "waits for a call of an assignment that has ended. To end that wait, skip it.",
    "sending": "has been sent, and the broker has not acknowledged it yet.",
}


def no_letters(handler: str) -> str:
    """Return why nothing of a handler can be sent to the dead letters."""
    return (
        f"is for handler {handler!r}, which has no dead letters. Register it with "
        'on_failure=DeadLetter("TOPIC"), or skip the record.'
    )


def refusals(status: str, handler: str, *, has_letters: bool) -> dict[str, str]:
    """Return which actions on a key would be refused, or change nothing, each with its reason."""
    why = WHY_NOT.get(status)
    found = {} if why is None else dict.fromkeys(("retry", "skip", "dead_letter"), why)
    if status == "behind":
        del found["skip"]
    if status == "paused":
        found["retry"] = "is paused: resume it."
    return found if has_letters else found | {"dead_letter": no_letters(handler)}
