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

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from homes import Homes
from simulator import Feed
from view import Picture, Summary

from ehkafka import App, EhkafkaError, Endpoint, TopicPartition
from ehkafka.errors import TopicNotFoundError
from ehkafka.wording import ended, seconds
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.inside import with_history

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS: Final = 16
ANSWER_S: Final = 5.0
CHECK_EVERY_S: Final = 0.25
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
        if self.records is None:
            self.seconds = self.seconds or 20.0
        goals = [seconds(self.seconds)] if self.seconds else []
        goals += [f"{self.records} records"] if self.records else []
        self.goal = " or ".join(goals)

    def make_topic(self) -> None:
        """Make the topic that the app did not find. Raises `TopicNotFoundError`."""
        # The error that matters is raised below; the client's own log lines would only repeat it.
        admin = AdminClient({**self.endpoint.client_properties(), "log_level": 0})
        where = f"topic {self.topic!r}, {PARTITIONS} partitions, on {self.address}"
        made = admin.create_topics([NewTopic(self.topic, PARTITIONS)], request_timeout=ANSWER_S)
        if (error := made[self.topic].exception()) is not None:
            why = f"The {where}, is missing and cannot be made: {ended(error.args[0].str())}"
            raise TopicNotFoundError(f"{why} Create it, or name another with --topic.") from error
        sys.stderr.write(f"Made the {where}; it stays there.\n")


class Session:
    """A run's parts and its clock."""

    def __init__(self, plan: DemoPlan, show: Callable[[Picture], None]) -> None:
        self._plan, self._show, self._picture = plan, show, Picture(plan)
        self._homes, self._history = Homes(), CheckingHistory()
        self._app = App(
            # A group of its own: where an earlier demo stopped is of no interest, nor what it left there.
            group=f"ehkafka-demo-{secrets.token_hex(4)}",
            endpoint=plan.endpoint,
            start="earliest" if plan.is_embedded else datetime.now(UTC),
            # The embedded broker answers a fetch that found nothing only after this, whatever else comes.
            consumer={"fetch.wait.max.ms": 10},
            connect_s=ANSWER_S,
        )
        with_history(self._app, self._history)
        self._app.handler(plan.topic, workers=plan.workers)(self._homes.handle)
        # Since the simulator was ready: to the last finished record, and to the last verdict.
        self._took_s, self._verdict_s = 0.0, 0.0
        # How often the user has asked to stop. A signal's handler counts, between this thread's bytecodes.
        self._stops, self._stop_asked = 0, threading.Event()
        self._left_early = False
        self._failure: EhkafkaError | None = None

    def run(self) -> Summary:
        """Produce and handle until the plan is fulfilled; return what came of it."""
        with ExitStack() as at_end:
            for number in (signal.SIGINT, signal.SIGTERM):
                at_end.callback(signal.signal, number, signal.signal(number, self._ask_to_stop))
            try:
                self._app.start()
            except TopicNotFoundError:
                self._plan.make_topic()
                self._app.start()
            at_end.callback(self._stop_app)
            self._feed = Feed(self._plan)
            at_end.callback(self._feed.close)
            ended_by = self._watch()
        return self._summary(ended_by)

    def _ask_to_stop(self, _number: int, _frame: object) -> None:
        self._stops += 1
        self._stop_asked.set()

    def _stop_app(self) -> None:
        try:
            self._app.stop(drain=not self._left_early)
        except EhkafkaError as error:
            self._failure = error

    def _watch(self) -> str:
        """Look on until all that was produced is finished; return why no more was produced."""
        picture, feed, ended_by = self._picture, self._feed, ""
        while True:
            self._take()
            has_failed = feed.failure is not None or self._app.wait(0)
            is_time = picture.elapsed_s >= (self._plan.seconds or float("inf"))
            ends = {"interrupt": self._stops, "failure": has_failed, "time": is_time}
            ends["records"] = not feed.left_records
            ended_by = ended_by or next((why for why, is_so in ends.items() if is_so), "")
            finished = picture.snapshot.finished_records
            if ended_by:
                picture.phase = "finishing"
                self._left_early = self._stops > int(ended_by == "interrupt")
                is_finished = not feed.unanswered and finished >= feed.stored_records
                is_stuck = picture.elapsed_s - self._took_s > LAST_RECORDS_S
                if is_finished or is_stuck or self._left_early or self._app.wait(0):
                    return ended_by
            else:
                feed.order(finished)
            self._stop_asked.wait(CHECK_EVERY_S)
            self._stop_asked.clear()

    def _take(self) -> None:
        """Show this moment."""
        feed, picture = self._feed, self._picture
        feed.listen()
        finished = picture.snapshot.finished_records
        elapsed_s = time.monotonic() - feed.began_s if feed.began_s else 0.0
        picture.take(self._app.snapshot(), elapsed_s, feed.stored_records)
        if picture.snapshot.finished_records != finished:
            self._took_s = elapsed_s
        # Not each time: the verdict walks over all that is unfinished.
        if elapsed_s - self._verdict_s >= 1.0:
            picture.verdict, self._verdict_s = self._history.verdict(), elapsed_s
        self._show(picture)

    def _summary(self, ended_by: str) -> Summary:
        finished, took_s = self._app.snapshot().finished_records, self._took_s
        facts = {
            "ended_by": ended_by,
            "left_early": self._left_early,
            "endpoint": self._plan.address,
            "workers": self._plan.workers,
            "homes": len(self._homes.readings),
            "stored_records": self._feed.stored_records,
            "finished_records": finished,
            "seconds": round(took_s, 3),
            "records_per_s": round(finished / took_s, 1) if took_s else 0.0,
            **self._picture.highest,
            "swapped": len(self._homes.swapped),
        }
        for partition, stored in self._feed.stored.items():
            self._history.produced(TopicPartition(self._plan.topic, partition), stored)
        # Who leaves early knows that readings are missing.
        verdict = self._history.verdict(complete=not self._left_early)
        return Summary(facts, verdict, self._failure or self._feed.failure)
