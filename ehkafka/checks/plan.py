"""Which steps there are, in which order, and which of them can go ahead after what came before.

Pure: knows no socket and no client. A step that did not apply holds nobody up; one that failed holds up
whatever needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.checks.result import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Key(NamedTuple):
    """A step by its name and what it looks at."""

    name: str
    subject: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.subject}" if self.subject else self.name


@dataclass(frozen=True, slots=True)
class Step:
    """`needs` must all be fine; of `needs_one`, if there are any, one is enough."""

    key: Key
    needs: tuple[Key, ...] = ()
    needs_one: tuple[Key, ...] = ()


SETTINGS = Key("settings")
TOKEN = Key("token")
AUTH = Key("auth")
GROUP = Key("group")


def steps_after_settings(
    addresses: Sequence[str | None], topics: Sequence[str], *, has_token: bool, has_mirror: bool = False
) -> tuple[Step, ...]:
    """Return the steps that follow the settings, for these addresses and topics."""
    named: Sequence[str | None] = topics or [None]
    token = [Step(TOKEN, (SETTINGS,))] if has_token else []
    open_doors = tuple(Key("kafka", address) for address in addresses)
    seen = tuple(Key("partitions", topic) for topic in named)
    return (
        *(step for address in addresses for step in _to_address(address)),
        *token,
        Step(AUTH, (SETTINGS, *(step.key for step in token)), open_doors),
        *(step for topic in named for step in _to_topic(topic)),
        Step(GROUP, (AUTH,), seen),
        *(Step(Key("offsets", topic), (Key("partitions", topic),)) for topic in named),
        Step(Key("clock"), (AUTH,)),
        Step(Key("commit"), (AUTH,), seen),
        *([Step(Key("mirror"), (SETTINGS,))] if has_mirror else []),
    )


def blocker(step: Step, statuses: Mapping[Key, Status]) -> Key | None:
    """Return the step that keeps this one from being tried, None when nothing does."""
    held_up = (Status.FAILED, Status.SKIPPED)
    for need in step.needs:
        if statuses.get(need, Status.SKIPPED) in held_up:
            return need
    if step.needs_one and all(statuses.get(need, Status.SKIPPED) in held_up for need in step.needs_one):
        return step.needs_one[0]
    return None


def _to_address(address: str | None) -> list[Step]:
    names = ("dns", "tcp", "tls", "kafka")
    befores = (SETTINGS, *(Key(name, address) for name in names))
    return [Step(Key(name, address), (before,)) for name, before in zip(names, befores, strict=False)]


def _to_topic(topic: str | None) -> list[Step]:
    return [
        Step(Key("topic", topic), (AUTH,)),
        Step(Key("partitions", topic), (Key("topic", topic),)),
    ]
