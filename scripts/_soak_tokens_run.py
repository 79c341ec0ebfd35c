"""The soak with short-lived tokens: one app, one producer, one broker, and the result.

Runs inside the environment; see `scripts/soak_tokens` for what it is for.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import ehkafka
from ehkafka.endpoint.client import open_producer
from ehkafka.endpoint.properties.layers import producer_properties
from ehkafka.events import ClientLogged, ConnectionProblem, Event, TokenRefreshFailed
from ehkafka.records import TopicPartition
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.inside import with_history
from tests.kit.server_identity import issue_identity

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from tests.kit.checker.verdict import Verdict

TOPIC = "readings"
PARTITIONS = 8
KEYS = [b"home-%d" % number for number in range(1000)]
VALUE = b"x" * 200
# A gap longer than this under a steady load means that a client was without a token.
GAP_S_MAX = 2.0
# Of the second half: caches, thread stacks and the allocator's own have settled by then.
GROWTH_MB_MAX = 20.0
_BAR_CHARACTERS = 30


def main() -> int:
    """Run what the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to run (600)")
    parser.add_argument("--life", type=float, default=30.0, help="life of a token in seconds (30)")
    parser.add_argument("--rate", type=float, default=2000.0, help="records per second (2000)")
    parser.add_argument(
        "--reauthenticate", type=float, default=10.0, help="longest SASL session on a connection (10 s)"
    )
    options = parser.parse_args()
    identity = issue_identity()
    listener = Listener(unsecured_tokens=True, identity=identity, reauthenticate_s=options.reauthenticate)
    _say("starting the broker …")
    with (
        tempfile.TemporaryDirectory() as directory,
        KafkaBroker(listeners={"entra": listener}) as broker,
        IdentityEndpoint(options.life) as tokens,
    ):
        os.environ.update(tokens.environment())
        authority = Path(directory) / "ca.pem"
        authority.write_bytes(identity.ca_pem)
        broker.create_topic(TOPIC, PARTITIONS)
        moved = {"bootstrap.servers": broker.bootstrap_for("entra"), "ssl.ca.location": str(authority)}
        with ehkafka.Endpoint.entra("soak", "managed_identity", properties=moved) as endpoint:
            return _soak(options, endpoint, tokens)


def _soak(options: argparse.Namespace, endpoint: ehkafka.Endpoint, tokens: IdentityEndpoint) -> int:
    run = Run()
    watched = {"statistics.interval.ms": 1000, "stats_cb": run.consumer_statistics}
    app = ehkafka.App(group="soak", endpoint=endpoint, start="earliest", consumer=watched)
    with_history(app, run.history)
    app.handler(TOPIC, workers=16)(run.handle)
    app.add_hook(run)
    app.start()
    load = Load(endpoint, run, options.rate)
    began_s = time.monotonic()
    run.note_memory("start")
    while (passed_s := time.monotonic() - began_s) < options.seconds:
        time.sleep(min(1.0, options.seconds - passed_s))
        if passed_s >= options.seconds / 2 and "half" not in run.memory_mb:
            run.note_memory("half")
        _show_progress(passed_s, options.seconds, run, tokens)
    run.is_steady = False
    load.stop()
    _wait_until_finished(app, run)
    run.note_memory("end")
    app.stop()
    return _report(options, run, tokens, endpoint)


@dataclass
class Run:
    """What happened, from every thread."""

    history: CheckingHistory = field(default_factory=CheckingHistory)
    counts: Counter[str] = field(default_factory=Counter)
    authentications: dict[str, int] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)
    handled: int = 0
    produced: int = 0
    refused: list[str] = field(default_factory=list)
    is_steady: bool = True
    longest_gap_s: float = 0.0
    _last_s: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, _record: ehkafka.Record) -> None:
        """Take one record; on any worker."""
        now_s = time.monotonic()
        with self._lock:
            self.handled += 1
            if self._last_s is not None and self.is_steady:
                self.longest_gap_s = max(self.longest_gap_s, now_s - self._last_s)
            self._last_s = now_s

    def on_event(self, event: Event) -> None:
        """Count one event; on the telemetry thread."""
        name = type(event).__name__
        self.counts[name] += 1
        if isinstance(event, TokenRefreshFailed | ConnectionProblem):
            _say(f"{name}: {event.error}")
        elif isinstance(event, ClientLogged) and event.severity >= 40:
            _say(f"{name}: {event.text}")

    def consumer_statistics(self, text: str) -> None:
        """Take librdkafka's numbers of the consumer."""
        self._note_statistics("consumer", text)

    def producer_statistics(self, text: str) -> None:
        """Take librdkafka's numbers of the producer."""
        self._note_statistics("producer", text)

    def note_memory(self, when: str) -> None:
        """Note how much memory the process has in use now."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.memory_mb[when] = pages * resource.getpagesize() / 1e6

    def _note_statistics(self, who: str, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        # One of each connection is its first.
        self.authentications[who] = sum(
            max(0, broker["req"].get("SaslAuthenticate", 0) - broker.get("connects", 0)) for broker in brokers
        )


class Load:
    """Produces at a rate through the same endpoint, on a thread of its own."""

    def __init__(self, endpoint: ehkafka.Endpoint, run: Run, rate: float) -> None:
        statistics = {"statistics.interval.ms": 1000, "linger.ms": 5, "log_level": 3}
        self._producer: Producer = open_producer(
            producer_properties(endpoint, statistics), stats_cb=run.producer_statistics
        )
        self._run = run
        self._rate = rate
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Wait for every acknowledgement."""
        self._stopping.set()
        self._thread.join()
        if left := self._producer.flush(30.0):
            self._run.refused.append(f"{left} records were not acknowledged within 30 s")

    def _main(self) -> None:
        began_s, sent = time.monotonic(), 0
        while not self._stopping.wait(0.01):
            due = int((time.monotonic() - began_s) * self._rate)
            for number in range(sent, due):
                self._put(KEYS[number % len(KEYS)])
            sent = due
            self._producer.poll(0)

    def _put(self, key: bytes) -> None:
        while True:
            try:
                self._producer.produce(TOPIC, VALUE, key, on_delivery=self._delivered)
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._run.refused.append(error.str())
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._run.produced += 1
        self._run.history.produced(TopicPartition(TOPIC, partition), [offset])


def _wait_until_finished(app: ehkafka.App, run: Run) -> None:
    deadline_s = time.monotonic() + 30.0
    while run.handled < run.produced and app.state == "running" and time.monotonic() < deadline_s:
        time.sleep(0.05)


def _report(
    options: argparse.Namespace, run: Run, tokens: IdentityEndpoint, endpoint: ehkafka.Endpoint
) -> int:
    verdict = run.history.verdict(complete=True)
    asked = endpoint.tokens.attempts if endpoint.tokens is not None else 0
    problems = _problems(options, run, verdict, asked)
    lives = f"tokens of {options.life:.0f} s, sessions of {options.reauthenticate:.0f} s"
    counts = run.counts
    refreshes = f"{counts['TokenRefreshed']} refreshes, {counts['TokenRefreshFailed']} failures"
    rows = {
        "run": f"{options.seconds:.0f} s, {lives}, {options.rate:.0f} records/s",
        "records": f"{run.produced} produced, {verdict.finished} finished",
        "lost": verdict.lost + verdict.unseen,
        "repeated": verdict.duplicates,
        "out of order": verdict.order_violations,
        "longest gap": f"{run.longest_gap_s:.2f} s without a record",
        "token requests": f"{len(tokens.requests)}, {refreshes}",
        "re-authentications": ", ".join(f"{who} {count}" for who, count in run.authentications.items()),
        "connection errors": counts["ConnectionProblem"],
        "memory": ", ".join(f"{when} {size:.1f} MB" for when, size in run.memory_mb.items()),
    }
    _say("\n".join(f"  {name:<20}{value}" for name, value in rows.items()))
    for problem in problems:
        _say(f"WRONG: {problem}")
    _say("failed" if problems else "all as promised")
    return 1 if problems else 0


def _problems(options: argparse.Namespace, run: Run, verdict: Verdict, asked: int) -> list[str]:
    """Say what is not as promised, or was not shown."""
    problems = [f"produce: {text}" for text in run.refused[:5]]
    if not verdict.ok or verdict.duplicates or verdict.finished < run.produced:
        problems.append(f"the checker: {verdict.report()}")
    unwanted = ("TokenRefreshFailed", "ConnectionProblem", "PartitionLost", "CommitFailed")
    problems += [f"{run.counts[name]} × {name}" for name in unwanted if run.counts[name]]
    if run.longest_gap_s > GAP_S_MAX:
        problems.append(f"no record for {run.longest_gap_s:.2f} s")
    growth_mb = run.memory_mb["end"] - run.memory_mb["half"]
    if growth_mb > GROWTH_MB_MAX:
        problems.append(f"{growth_mb:.1f} MB more memory at the end than at half time")
    if options.seconds > 2 * options.life and not run.counts["TokenRefreshed"]:
        problems.append("no token was refreshed: this run has shown nothing")
    if options.seconds > 2 * options.reauthenticate and not all(run.authentications.values()):
        problems.append("no re-authentication was seen: this run has shown nothing")
    if asked > 3 + 2 * options.seconds / (0.8 * options.life):
        problems.append("the credential was asked far more often than tokens ran out")
    return problems


def _show_progress(passed_s: float, total_s: float, run: Run, tokens: IdentityEndpoint) -> None:
    line = f"{passed_s:.0f}/{total_s:.0f} s, {run.handled} records, {len(tokens.issued)} tokens"
    if sys.stdout.isatty():
        bar = "█" * min(_BAR_CHARACTERS, int(_BAR_CHARACTERS * passed_s / total_s))
        print(f"\r\033[K{bar:░<{_BAR_CHARACTERS}} {line}", end="", flush=True)
    elif int(passed_s) % 30 == 0:
        _say(line)


def _say(text: str) -> None:
    print(f"\r\033[K{text}" if sys.stdout.isatty() else text, flush=True)
