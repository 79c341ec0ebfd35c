"""The members of all groups of a chain, and what befalls them: they are killed, stopped, frozen, rolled.

Called by one thread at a time for each member; the guest's thread has one of its own.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError, FencedError, UnfinishedError
from tests.kit.checker.history_file import JsonLinesHistory
from tests.kit.processes import MemberProcess
from tests.kit.waiting import wait_until
from tests.proof.node_faults import CLIENT, NodeFaults
from tests.proof.options import BY_HAND, WORKERS
from tests.proof.reader import PATIENCE_S
from tests.proof.watch import EXACTLY_ONCE
from tests.proof.work import group_of

if TYPE_CHECKING:
    import argparse
    import random
    import threading
    from collections.abc import Callable

    from tests.proof.violations import Violations

HERE = Path(__file__).parent
SESSION_S, STOP_S = 5.0, 12.0
# By the default of 3 s, one late heartbeat ends a session: on a busy machine that is no fault of the client.
SESSION = {"session.timeout.ms": int(SESSION_S * 1000), "heartbeat.interval.ms": 1_000}
# Of one broker and of three, which take some seconds to agree on who leads.
TRANSACTION_S = {1: 4.0, 3: 8.0}
# So long a rebalance waits for a member that the coordinator does not give up: after a broker's kill a group
# stood for minutes at the default of 300 s.
POLL_S = 30.0
# Beyond `stop_s`: threads, processes and the interpreter end on a machine that many share, and a last commit
# may wait for a coordinator.
SLACK_S = {1: 8.0, 3: 25.0}
# A member that is frozen for so long has lost its session and its transaction.
FROZEN_S = (9.0, 12.0)
# So long without partitions is too long, but for a client that found no broker when one came back just before
# or meanwhile: a probe of liveness would have that member started again.
STRANDED_S, STRANDS_WITHIN_S = 45.0, 65.0
# What such an app says again and again while it is so; a client by hand says once what may be over.
STRANDED, SAYS_S = "not live: The client has known no broker", 5.0
STRANDED_BY_HAND = "brokers are down"
# What a client by hand of the protocol `consumer` says before it ends: the coordinator gave it up, and the
# group went back to the classic protocol of its other members.
CONVERTED = "ConsumerGroupHeartbeat fatal error: Broker: The group id does not exist"
# So long after brokers were away, a stop may leave work.
RECOVERS_S = 5.0
# An app has written what it does.
STACKS_S = 2.0
# So long after a refused output was settled, a stop may still leave what waited behind it.
REFUSED_S = 5.0
# How long the guest stays, and is away.
GUEST_S = 2.5
# What a stop says whose commits have too little room.
NO_ROOM = "could not be saved with the commit"
# By how much a member's clock is wrong.
CLOCK_S = (-3600.0, -30.0, 30.0, 3600.0)


class Members:
    """All of them, by level."""

    def __init__(
        self,
        asked: argparse.Namespace,
        cluster: Any,
        nodes: NodeFaults,
        directory: Path,
        violations: Violations,
        dice: random.Random,
        refuses: Callable[[int, set[int], float], bool],
    ) -> None:
        """`refuses` tells of a level and partitions of it whether an output was refused since some time."""
        self.asked, self.cluster, self.nodes, self.directory = asked, cluster, nodes, directory
        self._violations, self._dice = violations, dice
        self._witness = JsonLinesHistory(directory / "witness.jsonl")
        self._refuses = refuses
        self.of_level = [
            [self.member(level, number) for number in range(asked.members)] for level in range(asked.levels)
        ]
        self.all = [member for of_level in self.of_level for member in of_level]
        self.counts: Counter[str] = Counter()
        self.slowest_stop_s = 0.0
        # When each was last frozen; inf while it is.
        self._frozen_s: dict[MemberProcess, float] = {}
        # How long each one's log was at its last start.
        self._log_bytes: dict[MemberProcess, int] = {}

    def member(self, level: int, number: int) -> MemberProcess:
        """Return one more member, which does not run."""
        asked = self.asked
        kind, name = asked.kind[number % len(asked.kind)], f"{level}-{number}"
        by_proxy = number == 0 and "cut-client" in asked.faults
        options: dict[str, Any] = {
            "name": name,
            "level": level,
            "kind": kind,
            "clock": str(self._clock(name)),
            "bootstrap": self.cluster.bootstrap_for(CLIENT) if by_proxy else self.cluster.bootstrap,
            "strict": asked.strict,
            "metadata_bytes": asked.metadata_bytes,
            "broken": asked.broken[level % len(asked.broken)] if asked.broken else None,
        }
        if kind in BY_HAND:
            options["consumer"] = self._consumer_properties(name)
        else:
            settings = self._settings(level, name)
            options |= {"settings": settings, "workers": WORKERS[kind]}
        program = HERE / ("by_hand.py" if kind in BY_HAND else "member.py")
        where: Any = {"name": f"member-{name}", "directory": self.directory, "witness": self._witness}
        return MemberProcess(program, ["--options", json.dumps(options)], **where)

    def _settings(self, level: int, name: str) -> dict[str, Any]:
        times_ms = {**SESSION, "max.poll.interval.ms": int(POLL_S * 1000)}
        settings: dict[str, Any] = {"stop_s": STOP_S, "drain_s": 2, "consumer": times_ms}
        if self.asked.cooperative:
            settings["assignor"] = "cooperative-sticky"
        if self.asked.mode[level % len(self.asked.mode)] == EXACTLY_ONCE:
            settings["exactly_once"] = True
            settings["producer"] = {"transaction.timeout.ms": int(TRANSACTION_S[self.asked.brokers] * 1000)}
        if self.asked.static:
            settings["instance_id"] = f"member-{name}"
        return settings

    def _consumer_properties(self, name: str) -> dict[str, Any]:
        times_ms = {"max.poll.interval.ms": int(POLL_S * 1000)}
        static = {"group.instance.id": f"member-{name}"} if self.asked.static else {}
        if self.asked.protocol == "classic":
            strategy = (
                {"partition.assignment.strategy": "cooperative-sticky"} if self.asked.cooperative else {}
            )
            return {**times_ms, **static, **strategy, **SESSION}
        return {**times_ms, **static, "group.protocol": "consumer"}

    def _clock(self, name: str) -> Path:
        return self.directory / f"{name}.clock"

    def start(self) -> None:
        """Start all and wait until each has partitions."""
        for member in self.all:
            self._start(member)
        for member in self.all:
            self._wait_until_ready(member)

    def stop(self) -> None:
        """Stop all, each in good order."""
        for member in self.all:
            self._wait_until_ready(member)
            self._stop(member)

    def faults(self) -> dict[str, Callable[[], object]]:
        """Return the faults by their names."""
        return {
            "kill": self._kill,
            "stop": lambda: self._stop_and_start(self._dice.choice(self.all)),
            "roll": self._roll,
            "member-freeze": self._freeze,
            "member-clock": self._step_clock,
        }

    def guest(self, over: threading.Event) -> None:
        """Let one more member of a level come and go."""
        guests = [self.member(level, self.asked.members) for level in range(self.asked.levels)]
        dice = type(self._dice)(self.asked.seed)
        while not over.is_set():
            guest = dice.choice(guests)
            self._start(guest)
            self._wait_until_ready(guest)
            over.wait(GUEST_S)
            self._stop(guest)
            self.counts["rebalance"] += 1
            over.wait(GUEST_S)
        for guest in guests:
            guest.close()

    def revive(self) -> None:
        """Start again those that have ended by themselves, as a supervisor does."""
        for member in self.all:
            self._revive(member)

    def _revive(self, member: MemberProcess) -> None:
        if member.is_running:
            return
        if not self._is_excused(member):
            text = f"{member.name} with code {member.exit_code}: {member.log_tail()}"
            self._violations.blame("died", text)
        self._start(member)

    def _start(self, member: MemberProcess) -> None:
        self._log_bytes[member] = member.log.stat().st_size if member.log.exists() else 0
        member.start()

    def _is_excused(self, member: MemberProcess) -> bool:
        """Tell whether a member's end is a fault's doing, and count it as such."""
        found = {"fenced": self._is_fenced, "converted": self._was_converted_away}
        for name, holds in found.items():
            if holds(member):
                self.counts[name] += 1
                return True
        return False

    def _is_fenced(self, member: MemberProcess) -> bool:
        """Tell whether one with an instance id rightly says so.

        It was frozen for longer than its session and its transaction last, or the coordinator was away, and
        the answer that gave this instance a new member id was lost. Either was just before it ended.
        """
        if member.exit_code != FencedError.exit_code or not self.asked.static:
            return False
        # Its last words are as old as its end.
        ended_s = time.monotonic() - (time.time() - member.log.stat().st_mtime)
        was_frozen_s = self._frozen_s.get(member, -math.inf)
        back_s = self.nodes.coordinator_back_s(group_of(self._level(member)))
        return ended_s - max(was_frozen_s, back_s) < SESSION_S

    def _was_converted_away(self, member: MemberProcess) -> bool:
        """Tell whether a client by hand ended since its mixed group has no `consumer` protocol any more."""
        if self.asked.protocol != "mixed" or self._is_app(member):
            return False
        return CONVERTED in logged_since(member.log, self._log_bytes.get(member, 0))

    def _level(self, member: MemberProcess) -> int:
        return int(member.name.split("-")[1])

    def _kill(self) -> None:
        """One that has partitions: the death of one that has none loses nothing."""

        def with_partitions() -> list[MemberProcess]:
            return [member for member in self.all if member.assigned()]

        wait_until(with_partitions, "a member has partitions", PATIENCE_S)
        member = self._dice.choice(with_partitions())
        member.kill()
        self._start(member)

    def _roll(self) -> None:
        for member in self._dice.choice(self.of_level):
            self._stop_and_start(member)

    def _stop_and_start(self, member: MemberProcess) -> None:
        self._wait_until_ready(member)
        self._stop(member)
        self._start(member)

    def _freeze(self) -> None:
        member = self._dice.choice(self.all)
        self._revive(member)
        self._frozen_s[member] = math.inf
        member.suspend()
        time.sleep(self._dice.uniform(*FROZEN_S))
        self._frozen_s[member] = time.monotonic()
        member.resume()

    def _step_clock(self) -> None:
        """Let a member's wall clock be wrong, until it is stepped again."""
        level, number = self._dice.randrange(self.asked.levels), self._dice.randrange(self.asked.members)
        self._clock(f"{level}-{number}").write_text(str(self._dice.choice(CLOCK_S)))

    def _wait_until_ready(self, member: MemberProcess) -> None:
        """Wait until it has partitions: before that a signal would only end the interpreter."""

        def is_ready() -> bool:
            self._revive(member)
            return bool(member.assigned())

        def words() -> str:
            return f"partitions\n{member.log_tail()}"

        try:
            wait_until(is_ready, words, STRANDED_S)
        except AssertionError as error:
            if self.nodes.recovers(STRANDS_WITHIN_S) and self._is_stranded(member):
                self.counts["stranded"] += 1
            else:
                self._violations.blame("idle", f"{member.name} {error} {self._stacks(member)}")
            member.kill()
            self._start(member)
            wait_until(is_ready, words, PATIENCE_S)

    def _is_stranded(self, member: MemberProcess) -> bool:
        """Tell whether a member says that its client has lost all brokers. See `Reader.read`."""
        if not self._is_app(member):
            return STRANDED_BY_HAND in logged_since(member.log, self._log_bytes.get(member, 0))
        before_bytes = member.log.stat().st_size
        time.sleep(SAYS_S)
        return STRANDED in logged_since(member.log, before_bytes)

    def _stacks(self, member: MemberProcess) -> str:
        """Return what an app writes when it is asked what it does."""
        if not (member.is_running and self._is_app(member)):
            return ""
        os.kill(member.pid, signal.SIGUSR1)
        time.sleep(STACKS_S)
        return member.log_tail()

    def _is_app(self, member: MemberProcess) -> bool:
        return self.asked.kind[int(member.name.split("-")[2]) % len(self.asked.kind)] not in BY_HAND

    def _stop(self, member: MemberProcess) -> None:
        began_s, partitions = time.monotonic(), {place.partition for place in member.assigned()}
        member.terminate()
        try:
            code = member.wait(STOP_S + SLACK_S[self.asked.brokers])
        except EhkafkaError as error:
            self._violations.blame("slow_stop", str(error))
            member.kill()
            return
        took_s = time.monotonic() - began_s
        self.slowest_stop_s = max(self.slowest_stop_s, took_s)
        if code == UnfinishedError.exit_code and self._may_be_unfinished(member, partitions, took_s):
            self.counts["unfinished_stops"] += 1
        elif code and not self._is_excused(member):
            text = f"{member.name} with code {code} after {took_s:.1f} s: {member.log_tail()}"
            self._violations.blame("code", text)

    def _may_be_unfinished(self, member: MemberProcess, partitions: set[int], took_s: float) -> bool:
        """Tell whether a stop may leave work, or finished work that its commit does not name.

        Brokers were away meanwhile, the member was frozen just before, so that its session may have expired,
        an output of its partitions was refused, or the text of a commit has too little room for what was
        finished above it, which the app then says.
        """
        since_s = time.monotonic() - took_s - REFUSED_S
        return (
            self.nodes.recovers(took_s + RECOVERS_S)
            or self._frozen_s.get(member, -math.inf) > time.monotonic() - took_s - SESSION_S
            or self._refuses(self._level(member), partitions, since_s)
            or (
                self.asked.metadata_bytes is not None
                and NO_ROOM in logged_since(member.log, self._log_bytes.get(member, 0))
            )
        )

    def close(self) -> None:
        """End all that still runs."""
        for member in self.all:
            member.close()
        self._witness.close()


def logged_since(path: Path, bytes_before: int) -> str:
    """Return what a log has behind so many bytes."""
    with path.open("rb") as log:
        log.seek(bytes_before)
        return log.read().decode(errors="replace")
