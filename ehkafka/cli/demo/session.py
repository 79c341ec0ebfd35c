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
from contextlib import ExitStack
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
            kind, what = TopicNotFoundError, f"There is no topic {self.topic!r} there, nor can it be made"
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
        self._plan, self._show = plan, show
        self._partitions = plan.prepare()
        self._homes = Homes()
        self._history = CheckingHistory()
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
        self._ended_by = ""
        self._left_early = False
        self._failure: EhkafkaError | None = None

    def run(self) -> Summary:
        """Produce and handle until the plan is fulfilled; return what came of it."""
        with ExitStack() as at_end:
            for number in (signal.SIGINT, signal.SIGTERM):
                at_end.callback(signal.signal, number, signal.signal(number, self._on_signal))
            self._app.start()
            at_end.callback(self._stop_app)
            self._feed = Feed(self._plan, self._partitions, self._history)
            at_end.callback(self._feed.close)
            self._watch()
        return self._summary()

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._stops += 1
        self._stop_asked.set()

    def _stop_app(self) -> None:
        try:
            self._app.stop(drain=not self._left_early)
        except EhkafkaError as error:
            self._failure = error

    def _watch(self) -> None:
        """Look on while the simulator produces, and while the app finishes what is stored."""
        while not self._ended_by:
            self._take("producing")
            self._feed.allow(self._picture.snapshot)
            self._ended_by = self._end_of_producing()
            self._stop_asked.wait(0 if self._ended_by else CHECK_EVERY_S)
        self._feed.send(None)
        asked = int(self._ended_by == "interrupt")
        while not (self._feed.done and self._picture.snapshot.finished_records >= self._feed.stored_records):
            self._stop_asked.clear()
            self._take("finishing")
            self._left_early = self._stops > asked
            is_stuck = time.monotonic() - self._last_finished_s > LAST_RECORDS_S
            if self._left_early or is_stuck or self._app.wait(0):
                return
            self._stop_asked.wait(CHECK_EVERY_S / 5)

    def _end_of_producing(self) -> str:
        """Return why no more is to be produced; empty while there is."""
        feed, seconds = self._feed, self._plan.seconds
        ends = {
            "interrupt": self._stops > 0,
            "the app's own end": self._app.wait(0),
            "the simulator's end": feed.error is not None,
            "records": feed.done,
            "time": seconds is not None and self._picture.elapsed_s >= seconds,
        }
        return next((why for why, is_so in ends.items() if is_so), "")

    def _take(self, phase: str) -> None:
        """Show this moment."""
        self._feed.listen()
        now_s, finished = time.monotonic(), self._picture.snapshot.finished_records
        elapsed_s = 0.0 if self._feed.began_s is None else now_s - self._feed.began_s
        self._picture.take(self._app.snapshot(), phase, elapsed_s, self._feed.stored_records)
        if self._picture.snapshot.finished_records != finished:
            self._last_finished_s = now_s
        # The verdict walks over all that is unfinished.
        if now_s - self._verdict_s >= VERDICT_EVERY_S:
            self._picture.verdict, self._verdict_s = self._history.verdict(), now_s
        self._show(self._picture)

    def _summary(self) -> Summary:
        finished, began_s = self._app.snapshot().finished_records, self._feed.began_s
        # From the first stored reading to the last finished one.
        took_s = self._last_finished_s - (began_s or self._last_finished_s)
        facts = {
            "ended_by": self._ended_by,
            "left_early": self._left_early,
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
        verdict = self._history.verdict(complete=not self._left_early)
        return Summary(facts, verdict, self._failure or self._feed.failure)
