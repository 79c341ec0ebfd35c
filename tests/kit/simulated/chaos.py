"""What happens to the members of a simulation: churn, kills, stops, an operator's commands; then healing.

Runs on the simulation's clock. After `heal_s` nothing bad happens any more, held and paused keys are let
go, and once everything is committed all members leave in good order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kit.simulated.plan import NEVER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

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
        holds = member.dispatcher.holds
        key: Hashable = b"k%d" % rng.randrange(world.plan.keys)
        if holds.held and rng.random() < 0.5:
            key = rng.choice(list(holds.held)).key
        commands = self._commands(member)
        number = rng.randrange(len(commands) + 2)
        if number < len(commands):
            name, command = commands[number]
            world.note(member.name, "command", name, key)
            with member.locked():
                command(key)
        elif number == len(commands):
            world.note(member.name, "command", "skip", key)
            self._skip(member, key)
        else:
            world.note(member.name, "command", "send", key)
            self._send(member, key)
        member.wake_workers()

    def _commands(self, member: SimulatedMember) -> list[tuple[str, Callable[[Hashable], object]]]:
        holds, owned = member.dispatcher.holds, list(member.owned.values())
        found: list[tuple[str, Callable[[Hashable], object]]] = [
            ("pause", holds.pause_key),
            ("resume", holds.resume_key),
            ("resume", holds.resume_key),
            ("retry", holds.retry_key),
            ("stop", lambda _: holds.pause_all()),
            ("start", lambda _: holds.resume_all()),
            ("start", lambda _: holds.resume_all()),
        ]
        # Lanes as wide as the handler are paused everywhere.
        if owned and self._world.plan.scope == "partition":
            one = self._world.rng.choice(owned)
            found += [
                ("pause here", lambda key: holds.pause_key(key, one)),
                ("resume here", lambda key: holds.resume_key(key, one)),
            ]
        return found

    def _skip(self, member: SimulatedMember, key: Hashable) -> None:
        records = self._world.rng.choice([1, 1, 3])
        with member.locked() as dispatcher:
            # Reported before it is done: no later record of the key may start before.
            for lane in dispatcher.holds.held:
                if lane.key == key and lane.assignment.partition in dispatcher.assignments:
                    member.skipped(lane, records)
            dispatcher.holds.skip_key(key, records=records)

    def _send(self, member: SimulatedMember, key: Hashable) -> None:
        with member.locked() as dispatcher:
            for lane in list(dispatcher.holds.held):
                is_here = lane.assignment.partition in dispatcher.assignments and lane.head is not None
                if lane.key == key and is_here and lane not in dispatcher.decisions.diverting:
                    dispatcher.decisions.send_by_hand(lane, "by hand", self._world.rng.choice([1, 1, 3]))

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
        holds = member.dispatcher.holds
        with member.locked():
            holds.resume_all()
            for key in sorted(holds.paused_keys, key=str):
                holds.resume_key(key)
            for lane in list(holds.held):
                holds.retry_key(lane.key)
        member.wake_workers()

    def _all_committed(self) -> bool:
        world = self._world
        return world.log.produced >= world.plan.records and all(
            world.group.committed.get(partition, (world.plan.log_start, None))[0] == end
            for partition, end in world.log.ends.items()
        )

    def _check_what_is_left(self) -> None:
        world = self._world
        for member in world.left:
            dispatcher = member.dispatcher
            held = dispatcher.holds.held or dispatcher.assignments or dispatcher.holds.next_due_s()
            if held or member.flow.paused:
                world.problem(f"{member.name} left holds, assignments or pauses behind")
