"""What happens to the members of a simulation: churn, kills, stops, an operator's commands; then healing.

Runs on the simulation's clock. After `heal_s` nothing bad happens any more, held and paused keys are let
go, and once everything is committed all members leave in good order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.inbox import EPOCH
from tests.kit.simulated.plan import NEVER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.held import Held
    from tests.kit.simulated.member import SimulatedMember
    from tests.kit.simulated.simulator import Simulation

_MEMBERS_MAX = 5
_CARE_S = 0.5


class Chaos:
    """The outside world."""

    def __init__(self, world: Simulation) -> None:
        plan = world.plan
        self._world = world
        self._members = world.members
        # Everybody left in good order after everything was done.
        self.over = False
        self._every(plan.churn_s, self._churn)
        self._every(plan.crash_s, self._crash)
        self._every(plan.freeze_s, self._freeze)
        self._every(plan.commands_s, self._command)
        self._every(plan.resize_s, self._resize)
        world.clock.call_at(plan.heal_s, self._heal)

    def _every(self, mean_s: float, happen: Callable[[], None]) -> None:
        if mean_s >= NEVER_S:
            return
        world = self._world

        def again() -> None:
            if world.clock.now_s() < world.plan.heal_s:
                happen()
                world.clock.call_after(world.rng.expovariate(1 / mean_s), again)

        world.clock.call_after(world.rng.expovariate(1 / mean_s), again)

    def _churn(self) -> None:
        staying = [member for member in self._members if not member.leaving]
        if len(self._members) < _MEMBERS_MAX and self._world.rng.random() < 0.6:
            self._world.add_member()
        elif len(staying) > 1:
            self._world.rng.choice(staying).leaving = True

    def _crash(self) -> None:
        if self._members:
            self._world.kill(self._world.rng.choice(self._members))
            self._world.add_member()

    def _freeze(self) -> None:
        if not self._members:
            return
        world = self._world
        member = world.rng.choice(self._members)
        world.note(member.name, "is stopped")
        member.freeze()
        world.clock.call_after(world.rng.uniform(0.01, 2 * world.plan.session_s), member.thaw)

    def _resize(self) -> None:
        if self._members:
            world = self._world
            member, size = world.rng.choice(self._members), world.rng.randint(1, 2 * world.plan.workers)
            world.note(member.name, "has", size, "workers")
            member.resize(size)

    def _command(self) -> None:
        if not self._members:
            return
        world, rng = self._world, self._world.rng
        member = rng.choice(self._members)
        held = list(member.inboxes.waiting.held)
        key: Hashable = b"k%d" % rng.randrange(world.plan.keys)
        if held and rng.random() < 0.5:
            key = rng.choice(held).key
        commands: dict[str, Callable[[SimulatedMember, Hashable], object]] = {
            "pause": lambda member, key: self._each(member, key, "pause_key"),
            "pause here": lambda member, key: self._each(member, key, "pause_key", is_one=True),
            "resume": lambda member, key: self._each(member, key, "resume_key"),
            "resume here": lambda member, key: self._each(member, key, "resume_key", is_one=True),
            "retry": lambda member, key: self._each(member, key, "retry_key"),
            "stop": lambda member, _: member.inboxes.router.piles.stop(),
            "start": lambda member, _: member.inboxes.router.piles.resume(),
            "start soon": lambda member, _: member.inboxes.router.piles.resume(),
            "skip": self._skip,
            "send": self._send,
        }
        name = rng.choice(list(commands))
        world.note(member.name, "command", name, key)
        with member.hub.locked():
            commands[name](member, key)

    def _each(self, member: SimulatedMember, key: Hashable, command: str, *, is_one: bool = False) -> None:
        """Give a command for a key of all partitions, or of one."""
        epochs = list(member.inboxes.router.epochs.values())
        for epoch in [self._world.rng.choice(epochs)] if is_one and epochs else epochs:
            getattr(member.inboxes.waiting, command)(key, epoch)

    def _found(self, member: SimulatedMember, key: Hashable) -> Iterator[tuple[Held, Epoch]]:
        """Yield the waiting keys of that name whose first record is no call's, each once."""
        seen: set[Held] = set()
        for epoch in list(member.inboxes.router.epochs.values()):
            held = member.inboxes.waiting.find(key, epoch)
            if held is not None and held.q and held not in seen and not held.q[0][EPOCH].ended:
                seen.add(held)
                yield held, epoch

    def _skip(self, member: SimulatedMember, key: Hashable) -> None:
        records = self._world.rng.choice([1, 1, 3])
        for held, epoch in self._found(member, key):
            if held.ticket is None or held.is_parked:
                # Reported before it is done: no later record of the key may start before.
                member.skipped(list(held.q)[:records])
                member.inboxes.waiting.skip_key(key, epoch, records)

    def _send(self, member: SimulatedMember, key: Hashable) -> None:
        for held, _ in self._found(member, key):
            # The command is refused while a call of the key runs.
            runs = held.behind is not None and held.behind[0].is_live(held.behind[1])
            if held.ticket is None and not runs:
                member.inboxes.waiting.send_by_hand(held, "by hand", self._world.rng.choice([1, 1, 3]))

    def _heal(self) -> None:
        world = self._world
        world.note("healing")
        world.calm = True
        if not any(not member.leaving for member in self._members):
            world.add_member()
        self._care()

    def _care(self) -> None:
        world = self._world
        if self._all_committed():
            for member in self._members:
                member.leaving = True
        else:
            for member in self._members:
                self._let_go(member)
        if self._members:
            world.clock.call_after(_CARE_S, self._care)
        else:
            self._check_what_is_left()
            self.over = True

    def _let_go(self, member: SimulatedMember) -> None:
        with member.hub.locked() as inboxes:
            inboxes.router.piles.resume()
            for held in list(inboxes.waiting.held):
                self._each(member, held.key, "resume_key")
                self._each(member, held.key, "retry_key")

    def _all_committed(self) -> bool:
        world = self._world
        return world.log.produced >= world.plan.records and all(
            world.group.committed.get(partition, (world.plan.log_start, None))[0] == end
            for partition, end in world.log.ends.items()
        )

    def _check_what_is_left(self) -> None:
        world = self._world
        for member in world.left:
            router, waiting = member.inboxes.router, member.inboxes.waiting
            held = [one for one in waiting.held if one.ticket is None]
            if held or router.epochs or waiting.next_due_s() or member.flow.paused:
                world.problem(f"{member.name} left held keys, epochs or pauses behind")
