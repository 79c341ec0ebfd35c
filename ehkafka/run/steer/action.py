"""Requests to a run, its answers and refusals: plain values, which cross a network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ehkafka.errors import ActionRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

Target = Literal["key", "partition", "handler"]
Do = Literal["pause", "resume", "retry", "skip", "dead_letter", "start", "stop"]
ALLOWED: dict[str, tuple[str, ...]] = {
    "key": ("pause", "resume", "retry", "skip", "dead_letter"),
    "partition": ("pause", "resume"),
    "handler": ("start", "stop"),
}
TEXT_CHARACTERS_MAX = 1_000
_ONLY: Final = "a running record cannot be retried, skipped or dead-lettered"
_KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(("do", "target", "name", "by"), str),
    "offset": int,
    "for_s": float,
    **dict.fromkeys(("all", "keep", "preview"), bool),
}
# By the status of the key's head. Of any other it waits, and can be acted upon.
WHY_NOT: Final = {
    "queued": "waits for a free worker and then runs. To act on the record, pause its key first.",
    "running": (
        f"is with its handler: {_ONLY}. If the handler never returns, stop the app and use ehkafka "
        f"offsets skip."
    ),
    "waiting: your answer": f"waits for your answer: {_ONLY}.",
    "waiting: earlier call": (
        "waits for a handler call of an earlier assignment. To let the key continue, skip the record."
    ),
    "waiting: broker": "waits until the broker acknowledges its outputs or its dead letter.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One action on one key, partition or handler. `check` before it is carried out."""

    do: Do
    target: Target
    # A key's as `names` reads them, `TOPIC/PARTITION`, or a handler's.
    name: str
    # The caller, and from where: for the event.
    by: str = "the app's own code"
    # The head that the caller has seen: if another record is the head by now, nothing is done.
    offset: int | None = None
    # Not only the head: all records of the key that wait now.
    all: bool = False
    # A pause ends after so many seconds.
    for_s: float | None = None
    # A pause is taken over by the next assignment of the partition in this process.
    keep: bool = False
    # Say what would be done, and do nothing.
    preview: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Action:
        """Make one of plain values from outside. Raises `ActionRefusedError` for what is none."""
        for name, value in given.items():
            if (kind := _KINDS.get(name)) is None:
                raise refused(
                    "invalid", f"An action has no field {name[:40]!r}; its fields are {', '.join(_KINDS)}."
                )
            is_left_out = value is None and name in ("offset", "for_s")
            if not is_left_out and type(value) not in (kind, int if kind is float else kind):
                raise refused("invalid", f"{name} of an action must be {kind.__name__}.")
        if missing := [name for name in ("do", "target", "name") if name not in given]:
            raise refused("invalid", f"An action needs {' and '.join(missing)}.")
        action = cls(**given)
        action.check()
        return action

    def done(self, verb: str) -> str:
        """Return what is done, as `skipped`, the way it reads: in a preview it would be."""
        return f"would be {verb}" if self.preview else verb

    def goes(self, where: str) -> str:
        """Return where something goes, likewise."""
        return f"would go {where}" if self.preview else f"goes {where}"

    def check(self) -> None:
        """Refuse what no run could do. Raises `ActionRefusedError`."""
        if self.target not in ALLOWED:
            raise refused("invalid", f"The target of an action must be one of {', '.join(get_args(Target))}.")
        if self.do not in ALLOWED[self.target]:
            can = ", ".join(ALLOWED[self.target])
            raise refused(
                "invalid", f"{str(self.do)[:40]!r} is not an action on a {self.target}: use one of {can}."
            )
        if not self.name or len(self.name) > TEXT_CHARACTERS_MAX:
            raise refused(
                "invalid",
                f"The name of a {self.target} has 1 to {TEXT_CHARACTERS_MAX} characters, not "
                f"{len(self.name)}. Name a longer key by its first record, TOPIC/PARTITION@OFFSET.",
            )
        if self.for_s is not None and not 0 < self.for_s <= 366 * 86_400:
            raise refused(
                "invalid", f"for_s={self.for_s:g}: give more than 0 seconds, up to a year, for a pause."
            )
        if self.do != "pause" and (self.keep or self.for_s is not None):
            raise refused(
                "invalid", f"for_s and keep work only with pause, not with {self.do}: leave both out."
            )
        if self.all and self.do not in ("skip", "dead_letter"):
            raise refused(
                "invalid", f"all=True works only with skip and dead_letter, not with {self.do}: leave it out."
            )


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The effect of an action, or of a preview. `changed` is False where all was so already."""

    # A sentence.
    text: str
    changed: bool
    # The key as `TOPIC/PARTITION@OFFSET`, the partition as `TOPIC/PARTITION`, or the handler's name.
    name: str
    # How many records it was about; 0 for partitions and handlers.
    records: int = 0
    is_preview: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def refused(reason: str, text: str, names: tuple[str, ...] = ()) -> ActionRefusedError:
    """Return the error of an action that does nothing."""
    return ActionRefusedError(reason, text, names)


def not_running(state: str) -> ActionRefusedError:
    """Return what is raised where nothing runs."""
    return refused("stopped", f"Nothing was done: the app is {state}.")


def no_letters(handler: str) -> str:
    """Return why nothing of a handler can be sent to the dead letters."""
    return (
        f"is for handler {handler!r}, which has no dead-letter topic. Register the handler "
        'with on_failure=DeadLetter("TOPIC"), or skip the record.'
    )


def refusals(status: str, handler: str, *, has_letters: bool) -> dict[str, str]:
    """Return which actions on a key would be refused, or change nothing, each with its reason."""
    why = WHY_NOT.get(status)
    found = {} if why is None else dict.fromkeys(("retry", "skip", "dead_letter"), why)
    if status == "waiting: earlier call":
        del found["skip"]
    if status == "waiting: paused":
        found["retry"] = "is paused: resume its key."
    return found if has_letters else found | {"dead_letter": no_letters(handler)}
