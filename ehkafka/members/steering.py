"""Actions on keys, partitions and handlers of members: each goes to the member that has the key.

Any thread. A handler is started and stopped in all members, one after another.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ehkafka.errors import ActionRefusedError
from ehkafka.run.steer.action import ActionResult, refused
from ehkafka.run.steer.keys import KeyState
from ehkafka.run.steer.names import parse_head, parse_partition, partition_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.members.channel import Answer
    from ehkafka.records import TopicPartition
    from ehkafka.run.steer.action import Action

# For a member's answer; its poll loop has 5 s of it.
ANSWER_S: Final = 8.0
LIST_S: Final = 2.0


class Asking(Protocol):
    """What is needed of `Questions`."""

    def running(self) -> list[int]:
        """Return the numbers of the members that run."""

    def ask(self, number: int, action: str, timeout_s: float, /, **arguments: Any) -> Any:
        """Ask a member. Raises `TimeoutError` and `LookupError`."""

    def member_with(self, partition: TopicPartition) -> int | None:
        """Return which member has a partition, as far as is known."""


class AskingAll(Protocol):
    """What else is needed of `Questions`."""

    def ask_all(
        self, action: str, timeout_s: float, /, of: Callable[[int], Mapping[str, Any]]
    ) -> dict[int, Answer]:
        """Ask all members at once; who does not answer in time is left out."""


def keys_of(asking: AskingAll, *, values: bool) -> list[KeyState]:
    """Return the keys of all members that answer: those that hold a commit first, by age, then the others."""
    answers = asking.ask_all("keys", LIST_S, of=lambda _number: {"values": values}).values()
    # The snapshot says of the others that they do not answer.
    found = [KeyState(**one) for answer in answers if answer.error is None for one in answer.value]
    return sorted(found, key=lambda one: (not one.is_blocking, -one.age_s))


def act(asking: Asking, action: Action) -> ActionResult:
    """Have the member carry it out that has the key. Raises `ActionRefusedError`."""
    action.check()
    if action.target == "handler":
        return _in_all(asking, action)
    partition = parse_partition(action.name) if action.target == "partition" else None
    if action.target == "key" and (head := parse_head(action.name)) is not None:
        partition = head[0]
    if partition is None:
        return _ask(asking, _who_knows(asking, action), action)
    number = asking.member_with(partition)
    if number is None:
        raise refused(
            "elsewhere",
            f"{partition_name(partition)} is with no member here. `ehkafka owners` says who has it.",
        )
    return _ask(asking, number, action)


def _in_all(asking: Asking, action: Action) -> ActionResult:
    results = [_ask(asking, number, action) for number in asking.running()]
    if not results:
        raise refused("stopped", "Nothing was done: no member runs.")
    changed = sum(result.changed for result in results)
    text = f"{results[0].text.removesuffix('.')} (in {changed} of {len(results)} members)."
    return replace(results[0], text=text, changed=changed > 0)


def _who_knows(asking: Asking, action: Action) -> int:
    """Return the member that has a key of that text. Raises `ActionRefusedError` for none and for several."""
    asked = replace(action, preview=True, offset=None)
    known: dict[int, tuple[str, ...]] = {}
    unknown: ActionRefusedError | None = None
    for number in asking.running():
        try:
            known[number] = (_ask(asking, number, asked).name,)
        except ActionRefusedError as error:
            if error.reason == "unknown":
                unknown = error
            elif error.reason in ("busy", "stopped"):  # it may have the key, too
                why = f"Nothing was done: member {number} does not say whether it has the key. {error}"
                raise refused("busy", why) from None
            else:  # it has the key, and says why it would not do it
                known[number] = error.names
    if len(known) == 1:
        return next(iter(known))
    if not known:
        raise unknown or refused("stopped", "Nothing was done: no member runs.")
    names = tuple(name for some in known.values() for name in some)
    raise refused("ambiguous", f"Several members have a key {action.name!r}: {', '.join(names)}.", names)


def _ask(asking: Asking, number: int, action: Action) -> ActionResult:
    try:
        answer: Mapping[str, Any] = asking.ask(number, "act", ANSWER_S, action=action.as_dict())
    except (TimeoutError, LookupError) as error:
        raise refused("busy", f"It is not known whether anything was done: {error}") from None
    if "refused" in answer:
        reason, text, names = answer["refused"]
        raise refused(reason, f"Member {number}: {text}", tuple(names))
    return ActionResult(**answer["result"])
