"""One run of the demo, from the topic to the exit code.

On the main thread: starts the app and the simulator, looks at both several times a second, ends both in
order, and asks the checker. It must never let a run that the checker did not see end well.
"""

from __future__ import annotations

import secrets
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ehkafka import App, EhkafkaError
from ehkafka.cli.demo.feed import Feed
from ehkafka.cli.demo.homes import Homes
from ehkafka.cli.demo.log_keeper import kept_warnings
from ehkafka.cli.demo.picture import Meter, Picture
from ehkafka.cli.demo.screen import make_screen
from ehkafka.cli.demo.summary import Summary, print_summary
from ehkafka.cli.demo.topic import log_ends
from ehkafka.testing import CheckingHistory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.cli.demo.plan import DemoPlan
    from ehkafka.cli.demo.screen import Screen
    from ehkafka.telemetry import Snapshot
    from ehkafka.testing import Verdict

# The embedded broker answers a fetch that found nothing only after this time, whatever comes meanwhile.
FETCH_WAIT_MS: Final = 10
CHECK_EVERY_S: Final = 0.25
# The verdict walks over all that is unfinished.
VERDICT_EVERY_S: Final = 1.0
# Without a finished record for so long, what is missing counts as unseen.
LAST_RECORDS_S: Final = 15.0


def run_demo(plan: DemoPlan, *, as_json: bool) -> int:
    """Run the demo, print its summary on stdout and return the exit code."""
    with plan.endpoint, kept_warnings() as warnings:
        with stop_signals() as signals, make_screen(as_json=as_json, warnings=warnings) as screen:
            summary = Session(plan, log_ends(plan), signals, screen).run()
        print_summary(summary, as_json=as_json)
        for line in warnings:
            sys.stderr.write(f"{line}\n")
    return summary.exit_code


class StopSignals:
    """How often the user has asked to stop. Set by the signal handler, read by the session."""

    def __init__(self) -> None:
        self.count = 0
        self.asked = threading.Event()

    def handle(self, _number: int, _frame: object) -> None:
        """Take a signal, between bytecodes of the main thread."""
        self.count += 1
        self.asked.set()


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Count SIGINT and SIGTERM until the block ends."""
    signals = StopSignals()
    before = {number: signal.signal(number, signals.handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Session:
    """A run's parts and its clock."""

    def __init__(
        self, plan: DemoPlan, first_offsets: Sequence[int], signals: StopSignals, screen: Screen
    ) -> None:
        self._plan = plan
        self._signals = signals
        self._screen = screen
        self._homes = Homes()
        self._history = CheckingHistory()
        self._feed = Feed(plan, first_offsets, self._history)
        self._meter = Meter()
        self._app = App(
            # A group of its own: where an earlier demo stopped is of no interest.
            group=f"ehkafka-demo-{secrets.token_hex(4)}",
            endpoint=plan.endpoint,
            start=lambda _topic, partition: first_offsets[partition],
            history=self._history,
            consumer={"fetch.wait.max.ms": FETCH_WAIT_MS},
        )
        self._app.handler(plan.topic, workers=plan.workers)(self._homes.handle)
        self._last_finished = 0
        self._last_finished_s = time.monotonic()
        self._verdict: Verdict | None = None
        self._verdict_s = 0.0

    def run(self) -> Summary:
        """Produce and handle until the plan is fulfilled; return what came of it."""
        failure: EhkafkaError | None = None
        left_early = False
        self._app.start()
        try:
            self._feed.start()
            ended_by = self._produce()
            left_early = not self._finish(interrupted=ended_by == "interrupt")
        finally:
            failure = self._stop(drain=not left_early)
            self._feed.close()
        try:
            self._feed.check()
        except EhkafkaError as error:
            failure = failure or error
        return self._summary(ended_by, failure, left_early=left_early)

    def _produce(self) -> str:
        """Look on while the simulator produces; return why that ended."""
        while True:
            snapshot = self._check("producing")
            self._feed.allow(snapshot)
            if self._signals.count:
                return "interrupt"
            if self._app.wait(0):
                return "the app's own end"
            if self._feed.done:
                return "the simulator's end" if self._feed.error else "records"
            if self._plan.seconds is not None and self._elapsed_s() >= self._plan.seconds:
                return "time"
            self._signals.asked.wait(CHECK_EVERY_S)

    def _finish(self, *, interrupted: bool) -> bool:
        """Let the app finish what is stored; False when the user does not want to wait for it."""
        self._feed.stop()
        self._signals.asked.clear()
        while not (self._feed.done and self._last_finished >= self._feed.stored_records):
            self._check("finishing")
            if self._signals.count > int(interrupted):
                return False
            if self._app.wait(0) or time.monotonic() - self._last_finished_s > LAST_RECORDS_S:
                return True
            self._signals.asked.wait(CHECK_EVERY_S / 5)
        return True

    def _check(self, phase: str) -> Snapshot:
        snapshot = self._app.snapshot()
        now_s = time.monotonic()
        self._meter.add(snapshot)
        if snapshot.finished_records != self._last_finished:
            self._last_finished, self._last_finished_s = snapshot.finished_records, now_s
        if now_s - self._verdict_s >= VERDICT_EVERY_S:
            self._verdict, self._verdict_s = self._history.verdict(complete=False), now_s
        self._screen.show(
            Picture(
                plan=self._plan,
                snapshot=snapshot,
                elapsed_s=self._elapsed_s(),
                stored_records=self._feed.stored_records,
                rate_per_s=self._meter.rate_per_s,
                partition_rates_per_s=self._meter.partition_rates_per_s,
                curve=self._meter.curve,
                verdict=self._verdict,
                phase=phase,
            )
        )
        return snapshot

    def _elapsed_s(self) -> float:
        return 0.0 if self._feed.began_s is None else time.monotonic() - self._feed.began_s

    def _stop(self, *, drain: bool) -> EhkafkaError | None:
        try:
            self._app.stop(drain=drain)
        except EhkafkaError as error:
            return error
        return None

    def _summary(self, ended_by: str, failure: EhkafkaError | None, *, left_early: bool) -> Summary:
        snapshot = self._app.snapshot()
        began_s = self._last_finished_s if self._feed.began_s is None else self._feed.began_s
        states = self._homes.states
        return Summary(
            ended_by=ended_by,
            endpoint=self._plan.address,
            workers=self._plan.workers,
            homes=len(states),
            stored_records=self._feed.stored_records,
            finished_records=snapshot.finished_records,
            seconds=self._last_finished_s - began_s,
            lanes_max=self._meter.lanes_max,
            lag_records_max=self._meter.lag_records_max,
            backlog_records_max=self._meter.backlog_records_max,
            alarms=self._homes.alarms,
            alarms_expected=self._feed.alarms if self._feed.done and not left_early else None,
            left_early=left_early,
            failure=failure,
            # Who leaves early knows that readings are missing.
            verdict=self._history.verdict(complete=not left_early),
        )
