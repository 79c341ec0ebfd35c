"""The supervisor: starts members, starts them again, stops them together, replaces them one by one.

It consumes nothing itself. All that it does, it does in turns of one loop on the main thread, which waits for
nothing but its selector: a member that is stuck, and a terminal that takes no output, delay no other. Other
threads ask it for a snapshot or a stop.
"""

from __future__ import annotations

import math
import selectors
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Literal

from ehkafka.errors import ConfigurationError, EngineError, describe
from ehkafka.events import (
    AppStopped,
    AppStopping,
    MemberDone,
    MemberEnded,
    MemberHung,
    MemberLoops,
    MemberReady,
    MembersReplaced,
    MembersReplacing,
    MembersStarting,
)
from ehkafka.members.asking import Asking
from ehkafka.members.boot import packed
from ehkafka.members.commands import caught
from ehkafka.members.member import Member
from ehkafka.members.orders import INTERRUPTED
from ehkafka.members.output import MemberOutput
from ehkafka.members.process import MemberProcess, must_reap, reap
from ehkafka.members.restarts import LOOP_ENDS, Rollover, Watching, described, ends_all, failure_of
from ehkafka.members.summary import counts_of, joined_health, summed
from ehkafka.run.run import Run
from ehkafka.settings import drain_of
from ehkafka.telemetry.health import POLL_SILENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.errors import EhkafkaError
    from ehkafka.members.opening import MembersPlan
    from ehkafka.run.steer.action import Action, ActionResult
    from ehkafka.run.steer.keys import KeyState
    from ehkafka.settings import Drain
    from ehkafka.telemetry.bus import EventBus
    from ehkafka.telemetry.snapshot import Health, Snapshot

State = Literal["starting", "running", "stopping", "stopped"]

TURN_S: Final = 0.1
# Between two questions for its state; more often until it is ready, for which others may wait.
STATUS_EVERY_S: Final = 1.0
STATUS_AT_START_S: Final = 0.2
# And so many at least in the time after which a member counts as hung.
STATUS_IN_HUNG: Final = 4
# Beyond `stop_s` for a member's own end: its threads, its `on_stop` functions, the interpreter.
STOP_SLACK_S: Final = 5.0
# For one that was ordered to leave at once.
LEAVE_S: Final = 5.0
OUTPUT_S: Final = 2.0


class Supervisor(Run):
    """The members of one plan. `run` once, on the main thread; the rest from any."""

    # Why all stop, if that is an error; the first counts.
    failure: EhkafkaError | None = None

    def __init__(self, plan: MembersPlan, bus: EventBus, now_s: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._bus = bus
        self._now_s = now_s
        self._started_s = now_s()
        self._members = [Member(number) for number in range(1, plan.count + 1)]
        self.asking = Asking(self._members, now_s)
        self._selector = selectors.DefaultSelector()
        self._signals: deque[str] = deque()
        self._rollover = Rollover()
        self._turned_s = now_s()
        # None: members that are not live are left alone.
        self._watching = None if plan.wanted.hung_s is None else Watching(plan.wanted.hung_s, now_s)
        # Often enough that the time from one answer to the next is no silence.
        self._status_every_s = min(STATUS_EVERY_S, (plan.wanted.hung_s or math.inf) / STATUS_IN_HUNG)
        self._rolled_s = 0.0
        self._rolled = 0
        # What processes that have ended had counted. Main thread; replaced as a whole.
        self._ended: Counter[str] = Counter()
        self._ended_events: Counter[str] = Counter()
        # Who asked for the stop; the first counts.
        self._stopping: str | None = None
        self._leaving = False
        self._asked_to_stop: deque[tuple[str, Drain | None, float | None]] = deque()
        # What members ended with that were to stop.
        self._stop_codes: set[int] = set()
        # Whether any member has ever had an assignment, or run.
        self._has_worked = False
        self._has_run = False
        self._done = threading.Event()
        self._is_reaper = must_reap()

    # --- asked by any thread -----------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where it is in its life."""
        if self._done.is_set():
            return "stopped"
        if self._stopping is not None:
            return "stopping"
        return "running" if self._has_run else "starting"

    def snapshot(self) -> Snapshot:
        """Return the sum over the members, as they answer now, or in time did last."""
        self.asking.refresh()
        now_s = self._now_s()
        return summed(
            [member.shown(now_s) for member in self._members],
            self._ended,
            group=self._plan.settings.group,
            endpoint=self._plan.endpoint_name,
            state=self.state,
            taken_at_s=time.time(),
            uptime_s=now_s - self._started_s,
            counters=self._ended_events + Counter(self._bus.counters_snapshot()),
        )

    def health(self) -> Health:
        """Return what is wrong with any member."""
        now_s = self._now_s()
        return joined_health(member.health(now_s) for member in self._members)

    def not_live(self) -> tuple[str, ...]:
        """Return what only a restart of the supervisor cures: it restarts its members itself."""
        silence_s = self._now_s() - self._turned_s
        if self._done.is_set() or silence_s < POLL_SILENCE_S:
            return ()
        return (f"The supervisor of the members has not run for {silence_s:.0f} s.",)

    def not_ready(self) -> tuple[str, ...]:
        """Return why too few members do their work now."""
        if self._stopping is not None:
            return ("The app stops.",)
        ready, least = sum(member.is_ready for member in self._members), self._plan.wanted.members_min
        if ready >= least:
            return ()
        return (f"{ready} of {len(self._members)} members are ready; at least {least} must be ready.",)

    def keys(self, *, values: bool = False) -> list[KeyState]:
        """Return the keys of all members that hold a commit, or wait by themselves."""
        return self.asking.keys(values=values)

    def act(self, action: Action) -> ActionResult:
        """Have a member carry an action out. Raises `ActionRefusedError`."""
        return self.asking.act(action)

    not_started = not_ready

    def request_stop(
        self, reason: str, *, drain: Drain | None = None, timeout_s: float | None = None
    ) -> None:
        """Ask all members to stop; returns at once."""
        self._asked_to_stop.append((reason, drain, timeout_s))

    def log_state(self, why: str) -> None:
        """Have each member log what it does; returns at once."""
        for member in self._members:
            if (process := member.process) is not None:
                process.channel.ask("/report", {"why": why})

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that `run` is on, or one whose end that waits for."""
        return thread is threading.main_thread() or self._bus.owns(thread)

    def measure(self) -> None:
        """Have members count how long calls take."""
        self.asking.measures = True

    def own_producer(self) -> None:
        """Raise `ConfigurationError`."""
        raise ConfigurationError(
            "app.producer cannot send in this process, because with members= the app runs in other "
            "processes: send from on_start, on_stop or a handler, which run in each member."
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all members have ended; False when the time was over first."""
        return self._done.wait(timeout_s)

    # --- the main thread's -------------------------------------------------------------------------

    def run(self) -> None:
        """Run until all members have ended; raises what ended them, if it was an error."""
        self._bus.emit(MembersStarting(self._plan.count, self._plan.settings.group))
        output = MemberOutput()
        try:
            with caught(self._signals):
                while self._turn(output):
                    pass
        finally:
            for member in self._members:
                if member.process is not None:
                    member.process.close()
            output.close(OUTPUT_S)
            self._report_end()
            self._done.set()
            self._selector.close()
        if self.failure is not None:
            raise self.failure
        # As an app of one process where Ctrl-C comes before anything has begun.
        if self._stopping == "SIGINT" and self._stop_codes <= {INTERRUPTED}:
            raise KeyboardInterrupt

    def _report_end(self) -> None:
        code = 0 if self.failure is None else self.failure.exit_code
        self._bus.emit(AppStopped(code, self._ended["returned_records"]))

    def _turn(self, output: MemberOutput) -> bool:
        """Do what is due; False when all members have ended for good."""
        self._selector.select(TURN_S)
        self._take_signals()
        self._turned_s = now_s = self._now_s()
        if self._watching is not None:
            self._watching.note_turn()
        for member in self._members:
            self._check(member, now_s)
        if self._is_reaper:
            reap({member.process.pid for member in self._members if member.process is not None})
        if self._stopping is not None:
            return any(member.process is not None for member in self._members)
        if all(member.is_done for member in self._members):
            return False
        self._roll(now_s)
        for member in self._members:
            if member.process is None and not member.is_done and now_s >= member.start_at_s:
                self._start(member, output)
        if self._plan.wanted.health_file is not None:
            self._plan.wanted.health_file.touch_if(self._all_are_live)
        return True

    def _all_are_live(self) -> bool:
        now_s = self._now_s()
        return all(member.is_done or member.is_live(now_s) for member in self._members)

    def _start(self, member: Member, output: MemberOutput) -> None:
        boot = packed(self._plan.boot, member.number, is_first=member.starts == 0)
        try:
            process = MemberProcess(boot)
        except OSError as error:  # no memory, no process, no descriptor: that may pass
            member.ready_at_s = None
            self._ended_unasked(member, f"it cannot be started: {error}", self._now_s())
            return
        output.add(member.number, process.outputs)
        member.begin(process)
        self._selector.register(process.channel, selectors.EVENT_READ)

    def _check(self, member: Member, now_s: float) -> None:
        process = member.process
        if process is None:
            return
        self._receive(member, process)
        # A socket at its end would never wait, until it is buried.
        if process.channel.ended and process.channel in self._selector.get_map():
            self._selector.unregister(process.channel)
        if (exit_code := process.exit_code()) is not None:
            self._buried(member, process, exit_code, now_s)
            return
        self._ask_for_state(member, process, now_s)
        if member.kill_at_s is not None and now_s >= member.kill_at_s:
            process.kill()
        self._watch(member, process, now_s)

    def _receive(self, member: Member, process: MemberProcess) -> None:
        """Take what it has said; one that says what no member of ours does is killed."""
        try:
            for unasked in process.channel.pump():
                member.note(unasked)
        except (ValueError, KeyError, TypeError) as error:
            text = f"it sent an unknown message ({describe(error)})"
            member.farewell = {"kind": EngineError.__name__, "text": text, "place": ""}
            process.kill()

    def _ask_for_state(self, member: Member, process: MemberProcess, now_s: float) -> None:
        asked = member.asked
        if asked is not None and asked.done():
            member.take(asked, now_s)
        elif asked is None and member.silence_s(now_s) >= (
            STATUS_AT_START_S if member.ready_at_s is None else self._status_every_s
        ):
            member.asked = self.asking.ask_state(process)
        self._has_run |= member.state == "running"
        if member.is_ready and member.ready_at_s is None:
            member.ready_at_s, self._has_worked = now_s, True
            snapshot = member.snapshot
            partitions = 0 if snapshot is None else len(snapshot.partitions)
            after_s = now_s - process.started_s
            self._bus.emit(MemberReady(member.number, process.pid, partitions, after_s))

    def _watch(self, member: Member, process: MemberProcess, now_s: float) -> None:
        """Kill a member that has not been live for too long."""
        if self._watching is None or member.kill_at_s is not None:
            return
        if (for_s := self._watching.hung_s(member)) is not None:
            reason = member.not_live(now_s) or f"it has not answered for {for_s:.0f} s"
            self._bus.emit(MemberHung(member.number, process.pid, for_s, reason))
            process.kill()
            member.kill_at_s = now_s

    def _buried(self, member: Member, process: MemberProcess, exit_code: int, now_s: float) -> None:
        """Take note of a process that has ended, and decide what follows."""
        # What it said last may have come after the look before.
        self._receive(member, process)
        if process.channel in self._selector.get_map():
            self._selector.unregister(process.channel)
        snapshot = member.snapshot
        self._ended = self._ended + counts_of(snapshot)
        if snapshot is not None:
            self._ended_events = self._ended_events + Counter(snapshot.counters)
        was_asked = member.is_stopping
        member.last_end = described(exit_code, member.farewell)
        process.close()
        member.end()
        if self._stopping is not None:
            self._stop_codes.add(exit_code)
            if exit_code not in {0, INTERRUPTED} and self.failure is None:
                self.failure = failure_of(member.number, exit_code, member.farewell)
        elif ends_all(exit_code, has_worked=self._has_worked, has_end=self._plan.wanted.has_end):
            self.failure = failure_of(member.number, exit_code, member.farewell)
            self._stop_all(f"member {member.number} ended by {member.last_end}")
        elif self._rollover.ended(member.number) and was_asked:
            member.start_at_s = now_s
        elif exit_code == 0 and self._plan.wanted.has_end:
            member.is_done = True
            self._stop_codes.add(exit_code)
            self._bus.emit(MemberDone(member.number))
        else:
            self._ended_unasked(member, member.last_end, now_s)

    def _ended_unasked(self, member: Member, how: str, now_s: float) -> None:
        wait_s = member.backoff.after(0.0 if member.ready_at_s is None else now_s - member.ready_at_s)
        member.start_at_s = now_s + wait_s
        member.last_end = how
        self._bus.emit(MemberEnded(member.number, how, wait_s))
        if member.backoff.ends_in_a_row == LOOP_ENDS:
            self._bus.emit(MemberLoops(member.number, LOOP_ENDS, how))

    def _take_signals(self) -> None:
        while self._asked_to_stop:
            self._stop_all(*self._asked_to_stop.popleft())
        while self._signals:
            name = self._signals.popleft()
            if name == "SIGHUP":
                self._begin_rolling(name)
            elif name == "SIGUSR1":
                self.log_state(name)
            elif self._stopping is None:
                self._stop_all(name)
            elif not self._leaving:
                self._leave_all()

    def _stop_all(self, reason: str, drain: Drain | None = None, timeout_s: float | None = None) -> None:
        """Have all members stop, once."""
        if self._stopping is not None:
            return
        self._stopping = reason
        self._rollover.cancel()
        settings = self._plan.settings
        timeout_s = settings.stop_s if timeout_s is None else timeout_s
        self._bus.emit(AppStopping(reason, drain_of(settings.drain if drain is None else drain), timeout_s))
        for member in self._members:
            self._stop(member, reason, drain, timeout_s)

    def _stop(self, member: Member, reason: str, drain: Drain | None, timeout_s: float) -> None:
        if member.process is None:
            return
        member.is_stopping = True
        member.kill_at_s = self._now_s() + timeout_s + STOP_SLACK_S
        member.process.channel.ask("/stop", {"how": [reason, drain, timeout_s]})

    def _leave_all(self) -> None:
        self._leaving = True
        for member in self._members:
            if member.process is not None:
                member.kill_at_s = self._now_s() + LEAVE_S
                member.process.channel.ask("/leave", {"how": []})

    def _begin_rolling(self, reason: str) -> None:
        if self._stopping is not None:
            return
        if not self._rollover.is_active:
            self._rolled_s, self._rolled = self._now_s(), 0
        self._bus.emit(MembersReplacing(len(self._members), reason))
        self._rollover.begin(member.number for member in self._members)

    def _roll(self, now_s: float) -> None:
        """Go on with a rolling restart."""
        if not self._rollover.is_active:
            return
        before = self._rollover.current
        number = self._rollover.next_to_stop(
            lambda one: self._members[one - 1].process is not None,
            lambda one: self._members[one - 1].is_ready or self._members[one - 1].is_done,
        )
        if self._rollover.current != before and before is not None:
            self._rolled += 1
        if number is not None:
            self._stop(self._members[number - 1], "replaced", None, self._plan.settings.stop_s)
        if not self._rollover.is_active:
            self._bus.emit(MembersReplaced(self._rolled, now_s - self._rolled_s))
