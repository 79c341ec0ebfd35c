"""The group coordinator of a simulation: membership, generations, who owns what, committed offsets.

Follows Kafka's classic protocol as far as a member can tell: a round of joins makes a generation, who
does not join in time is out, a commit is taken from members of the current generation alone. Eager
members join with nothing; cooperative ones keep what they own, and a partition that moves is free for a
whole round in between.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from ehkafka.progress.ledger import Position
    from ehkafka.records import TopicPartition
    from tests.kit.simulated.plan import SimulationPlan


class Standing(enum.Enum):
    """What a heartbeat is answered."""

    UNKNOWN = "unknown member"
    REBALANCE = "a round has begun: join it"
    STABLE = "stable"


class CommitRefusal(enum.Enum):
    """Why a partition's commit was not stored."""

    UNKNOWN_MEMBER = "unknown member"
    OLD_GENERATION = "illegal generation"
    REBALANCE = "rebalance in progress"
    COORDINATOR = "coordinator load in progress"
    TIMED_OUT = "timed out"
    METADATA = "offset metadata too large"


@dataclass(slots=True)
class _Membership:
    seen_s: float
    joined: bool = False
    owned: list[TopicPartition] = field(default_factory=list)
    target: list[TopicPartition] = field(default_factory=list)


class SimulatedGroup:
    """One group. Calls happen at the broker, at the virtual time they are made."""

    def __init__(
        self,
        plan: SimulationPlan,
        rng: random.Random,
        now_s: Callable[[], float],
        partitions: list[TopicPartition],
        is_alive: Callable[[str], bool],
    ) -> None:
        self._plan = plan
        self._rng = rng
        self._now_s = now_s
        self._partitions = partitions
        self._members: dict[str, _Membership] = {}
        self.generation = 0
        # When the round of joins is closed; None while the group is stable.
        self._round_ends_s: float | None = None
        self.committed: dict[TopicPartition, tuple[int, str | None]] = {}
        self._is_alive = is_alive
        # Members that were put out while they lived: they do not know yet and work on.
        self.unaware: set[str] = set()

    def join(self, name: str, owned: list[TopicPartition]) -> None:
        """Join the round, or begin one."""
        if self._round_ends_s is None:
            self._begin_round()
        member = self._members.setdefault(name, _Membership(self._now_s()))
        member.joined, member.owned, member.seen_s = True, sorted(owned), self._now_s()

    def leave(self, name: str) -> None:
        """Leave for good."""
        if self._members.pop(name, None) is not None and self._members:
            self._begin_round()

    def heartbeat(self, name: str) -> Standing:
        """Show that a member lives, and tell it where it stands."""
        self.check()
        member = self._members.get(name)
        if member is None:
            return Standing.UNKNOWN
        member.seen_s = self._now_s()
        if self._round_ends_s is None:
            return Standing.STABLE
        return Standing.STABLE if member.joined else Standing.REBALANCE

    def assignment(self, name: str) -> list[TopicPartition] | None:
        """Return what the round gave a member, `None` while it goes on."""
        self.check()
        member = self._members.get(name)
        return None if member is None or self._round_ends_s is not None else list(member.target)

    def commit(
        self, name: str, generation: int, positions: Mapping[TopicPartition, Position]
    ) -> dict[TopicPartition, CommitRefusal]:
        """Store what may be stored; return the refusals."""
        self.check()
        refusal = None
        if name not in self._members:
            refusal = CommitRefusal.UNKNOWN_MEMBER
        elif generation != self.generation:
            refusal = CommitRefusal.OLD_GENERATION
        elif self._plan.refuses_in_rounds and self._round_ends_s is not None:
            refusal = CommitRefusal.REBALANCE
        refused = {}
        for partition, position in positions.items():
            if refusal is not None:
                refused[partition] = refusal
            elif len(position.metadata or "") > self._plan.metadata_bytes_max:
                refused[partition] = CommitRefusal.METADATA
            else:
                self.committed[partition] = (position.next_offset, position.metadata)
        return refused

    def check(self) -> None:
        """Let sessions expire and rounds end."""
        now_s = self._now_s()
        for name, member in list(self._members.items()):
            waiting = self._round_ends_s is not None and member.joined
            if not waiting and now_s - member.seen_s > self._plan.session_s:
                self._expel(name)
        ends_s = self._round_ends_s
        if ends_s is None or not self._members:
            return
        if now_s >= ends_s or all(member.joined for member in self._members.values()):
            for name in [name for name, member in self._members.items() if not member.joined]:
                self._expel(name)
            self._complete_round()

    def _expel(self, name: str) -> None:
        if self._is_alive(name):
            self.unaware.add(name)
        self.leave(name)

    def _begin_round(self) -> None:
        if self._round_ends_s is None:
            for member in self._members.values():
                member.joined = False
        self._round_ends_s = self._now_s() + self._plan.rebalance_s

    def _complete_round(self) -> None:
        self._round_ends_s = None
        self.generation += 1
        now_s = self._now_s()
        members = [self._members[name] for name in sorted(self._members)]
        self._rng.shuffle(members)
        # The larger quotas go to who owns more, or cooperative rounds would never come to rest.
        members.sort(key=lambda member: -len(member.owned))
        quotas = [len(self._partitions[index :: len(members)]) for index in range(len(members))]
        taken = {partition for member in members for partition in member.owned}
        free = [partition for partition in self._partitions if partition not in taken]
        self._rng.shuffle(free)
        for member, quota in zip(members, quotas, strict=True):
            member.seen_s = now_s
            kept = self._rng.sample(member.owned, min(quota, len(member.owned)))
            while len(kept) < quota and free:
                kept.append(free.pop())
            member.target = kept
