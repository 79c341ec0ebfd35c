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
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from ehkafka import App, EhkafkaError, Endpoint
from ehkafka.cli.demo.homes import Homes
from ehkafka.cli.demo.simulator import Feed
from ehkafka.cli.demo.view import Picture, Summary, shown
from ehkafka.cli.log_setup import kept_warnings
from ehkafka.errors import EndpointError, TopicNotFoundError
from ehkafka.testing import CheckingHistory
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS: Final = 16
SECONDS_DEFAULT: Final = 20.0
ANSWER_S: Final = 5.0
# The embedded broker answers a fetch that found nothing only after this time, whatever comes meanwhile.
FETCH_WAIT_MS: Final = 10
CHECK_EVERY_S: Final = 0.25
VERDICT_EVERY_S: Final = 1.0
# Without a finished record for so long, what is missing counts as unseen.
LAST_RECORDS_S: Final = 15.0


@dataclass(kw_only=True)
class DemoPlan:
    """What was asked for: it ends after `seconds` of producing or with the last of `records`."""

    # As the user wrote it: `embedded`, or a bootstrap address. A bad one raises `ConfigurationError`.
    address: str
    topic: str
    workers: int
    seconds: float | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        """Describe the endpoint, and when it ends where nothing else does."""
        self.is_embedded = self.address == "embedded"
        embedded = {self.topic: PARTITIONS}
        self.endpoint = Endpoint.embedded(embedded) if self.is_embedded else Endpoint.kafka(self.address)
        if self.seconds is None and self.records is None:
            self.seconds = SECONDS_DEFAULT

    def prepare(self) -> int:
        """Make the topic where it is missing; return its partitions. Raises `EndpointError`."""
        if self.is_embedded:
            self.endpoint.prepare_topics([self.topic])
            return PARTITIONS
        # The errors that matter are raised below; the client's own log lines would only repeat them.
        admin = AdminClient({**self.endpoint.client_properties(), "log_level": 0})
        kind, what = EndpointError, f"{self.address} could not be reached within {ANSWER_S:.0f} s"
        fix = "Check host, port and that a broker listens there; without --endpoint the demo brings its own."
        try:
            if found := admin.list_topics(timeout=ANSWER_S).topics.get(self.topic):
                return len(found.partitions)
            kind, what = (
                TopicNotFoundError,
                f"There is no topic {self.topic!r} on {self.address} to use or make",
            )
            fix = f"Create it with {PARTITIONS} partitions, or name another with --topic."
            made = admin.create_topics([NewTopic(self.topic, PARTITIONS)], operation_timeout=ANSWER_S)
            made[self.topic].result(ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            text = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            raise kind(f"{what}: {ended(text)} {fix}") from error
        text = f"Made the topic {self.topic!r}, {PARTITIONS} partitions, on {self.address}"
        typer.echo(f"{text}; it stays there.", err=True)
        return PARTITIONS


def run_demo(plan: DemoPlan, *, as_json: bool) -> int:
    """Run the demo, print its summary on stdout and return the exit code."""
    # Nothing may write over the live view: warnings are shown in it, and printed after it.
    with plan.endpoint, kept_warnings() as warnings:
        with shown(as_json=as_json, warnings=warnings) as show:
            summary = Session(plan, show).run()
        summary.show(as_json=as_json)
        sys.stderr.writelines(f"{line}\n" for line in warnings)
    return summary.exit_code


class Session:
    """A run's parts and its clock."""

    def __init__(self, plan: DemoPlan, show: Callable[[Picture], None]) -> None:
        self._plan = plan
        self._show = show
        self._homes = Homes()
        self._history = CheckingHistory()
        self._feed = Feed(plan, plan.prepare(), self._history)
        self._app = App(
            # A group of its own: where an earlier demo stopped is of no interest, nor what it left there.
            group=f"ehkafka-demo-{secrets.token_hex(4)}",
            endpoint=plan.endpoint,
            start="earliest" if plan.is_embedded else datetime.now(UTC),
            history=self._history,
            consumer={"fetch.wait.max.ms": FETCH_WAIT_MS},
        )
        self._app.handler(plan.topic, workers=plan.workers)(self._homes.handle)
        self._picture = Picture(plan)
        self._last_finished_s = time.monotonic()
        self._verdict_s = 0.0
        # How often the user has asked to stop. The signal handler writes it, between this thread's bytecodes.
        self._stops = 0
        self._stop_asked = threading.Event()

    def run(self) -> Summary:
        """Produce and handle until the plan is fulfilled; return what came of it."""
        stops = (signal.SIGINT, signal.SIGTERM)
        handlers = {number: signal.signal(number, self._on_signal) for number in stops}
        left_early = False
        try:
            self._app.start()
            try:
                self._feed.start()
                ended_by, left_early = self._watch()
            finally:
                failure = self._stopped(drain=not left_early)
                self._feed.close()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return self._summary(ended_by, failure or self._feed.failure, left_early=left_early)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stops += 1
        self._stop_asked.set()

    def _watch(self) -> tuple[str, bool]:
        """Look on until all is handled; return what ended the producing, and whether the user left early."""
        ended_by = ""
        while True:
            self._check("finishing" if ended_by else "producing")
            is_idle = time.monotonic() - self._last_finished_s > LAST_RECORDS_S
            if not ended_by:
                ended_by = self._end_of_producing()
                self._feed.send(None) if ended_by else self._feed.allow(self._picture.snapshot)
                self._stop_asked.clear()
            elif self._stops > int(ended_by == "interrupt"):
                return ended_by, True
            elif is_idle or self._is_all_finished() or self._app.wait(0):
                return ended_by, False
            self._stop_asked.wait(CHECK_EVERY_S / 5 if ended_by else CHECK_EVERY_S)

    def _end_of_producing(self) -> str:
        """Return why no more is to be produced; empty while there is."""
        report, seconds = self._feed.report, self._plan.seconds
        if self._stops:
            return "interrupt"
        if self._app.wait(0):
            return "the app's own end"
        if report.done:
            return "the simulator's end" if report.error else "records"
        return "time" if seconds is not None and self._elapsed_s() >= seconds else ""

    def _is_all_finished(self) -> bool:
        finished = self._picture.snapshot.finished_records
        return self._feed.report.done and finished >= self._feed.stored_records

    def _check(self, phase: str) -> None:
        self._feed.listen()
        finished = self._picture.snapshot.finished_records
        self._picture.take(self._app.snapshot(), phase, self._elapsed_s(), self._feed.stored_records)
        if self._picture.snapshot.finished_records != finished:
            self._last_finished_s = time.monotonic()
        # The verdict walks over all that is unfinished.
        if time.monotonic() - self._verdict_s >= VERDICT_EVERY_S:
            self._picture.verdict, self._verdict_s = self._history.verdict(), time.monotonic()
        self._show(self._picture)

    def _elapsed_s(self) -> float:
        return 0.0 if self._feed.began_s is None else time.monotonic() - self._feed.began_s

    def _stopped(self, *, drain: bool) -> EhkafkaError | None:
        try:
            self._app.stop(drain=drain)
        except EhkafkaError as error:
            return error
        return None

    def _summary(self, ended_by: str, failure: EhkafkaError | None, *, left_early: bool) -> Summary:
        finished, began_s = self._app.snapshot().finished_records, self._feed.began_s
        # From the first stored reading to the last finished one.
        took_s = self._last_finished_s - (began_s or self._last_finished_s)
        facts = {
            "ended_by": ended_by,
            "left_early": left_early,
            "endpoint": self._plan.address,
            "workers": self._plan.workers,
            "homes": len(self._homes.readings),
            "stored_records": self._feed.stored_records,
            "finished_records": finished,
            "seconds": round(took_s, 3),
            "records_per_s": round(finished / took_s, 1) if took_s > 0 else 0.0,
            **self._picture.highest,
            "swapped": len(self._homes.swapped),
        }
        # Who leaves early knows that readings are missing.
        return Summary(facts, self._history.verdict(complete=not left_early), failure)
