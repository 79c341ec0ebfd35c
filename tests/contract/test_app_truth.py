"""What an app says of itself in eight states, compared with what the broker has: a table of states.

The truth is asked of the brokers by clients of the test's own, which no fault reaches.
"""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from ehkafka.events import ConnectionProblem, OffsetGap, UnreadDeleted
from ehkafka.metrics import Collector
from tests.contract.asking import ask
from tests.contract.conftest import ALONE
from tests.kit.guarded_brokers import THE_APP, other_process
from tests.kit.inside import port_of
from tests.kit.metrics import Shown
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.kit.guarded_brokers import GuardedBrokers

UNREACHABLE_S = 3.0
# Records of each partition before the fault, and of the second one in each half after it.
BEFORE, HALF = 20, 1000
# What a slow app handles while it is looked at.
SLACK = 60
# What is shown is looked at after so long, and once all of it shows that is to be shown.
FAULT_S, SHOWN_S = UNREACHABLE_S + 1.0, 90.0


@dataclass
class Scene:
    """Two brokers, each behind a door and the leader of one partition, and an app."""

    brokers: GuardedBrokers
    options: Mapping[str, Any] = field(default_factory=dict)
    key: bytes = b"good"

    def __post_init__(self) -> None:
        self.idle: list[int] = []
        self.log: list[str] = []
        self.gate = threading.Event()
        client = {"client.id": THE_APP, "queued.min.messages": 10, "fetch.wait.max.ms": 50}
        # A broker that is asked for nothing else answers these.
        client |= {"heartbeat.interval.ms": 500, "session.timeout.ms": 120_000}
        usual: dict[str, Any] = {"unreachable_s": UNREACHABLE_S, "idle_s": 0.5, "commit_interval_s": 0.1}
        self.app = ehkafka.App(
            group="g",
            endpoint=ehkafka.Endpoint.kafka(self.brokers.bootstrap()),
            start="earliest",
            consumer=client,
            stop_s=0.5,
            http="127.0.0.1:0",
            **{**usual, **self.options},
        )
        self.app.handler("t", on_failure=ehkafka.Hold(), workers=2)(self.handle)
        self.app.on_idle(lambda partition: self.idle.append(partition.partition))
        self.app.add_hook(self)
        self.shown = Shown(Collector(self.app))

    def on_event(self, event: object) -> None:
        """Keep what the log tells of silence."""
        if isinstance(event, ConnectionProblem) and event.code == "silence":
            self.log.append(event.sentence())

    def handle(self, record: ehkafka.Record) -> None:
        """Fail, wait or take a while, as the key says."""
        if record.key() == b"bad":
            raise ValueError("no")
        if record.key() == b"stuck":
            self.gate.wait(30.0)
        if record.key() == b"slow":
            # All of it must last until the other states show: minutes, on a busy machine.
            time.sleep(0.2)

    def play(self, fault: Callable[[Scene], object], *, at_start: bool) -> None:
        """Handle some, then let the fault happen and producers go on; or let it be there from the start."""
        self.produce(BEFORE, b"good", 0, 1)
        if at_start:
            fault(self)
        self.app.start()
        wait_until(lambda: self.brokers.committed()[0] == BEFORE, timeout_s=SHOWN_S)
        if not at_start:
            wait_until(lambda: self.brokers.committed()[1] == BEFORE, timeout_s=SHOWN_S)
            wait_until(lambda: [one.lag_records for one in self.app.snapshot().partitions] == [0, 0])
            fault(self)
        self.produce(HALF, self.key, 1)
        time.sleep(1.0)
        self.produce(HALF, self.key, 1)
        self.produce(1, b"good", 0)
        self.idle.clear()
        time.sleep(FAULT_S)

    def produce(self, records: int, key: bytes, *partitions: int) -> None:
        """Produce to the brokers, past any fault."""
        for partition in partitions:
            self.brokers.produce(records, key, partition)

    def lag(self, partition: int = 1) -> int:
        """Return what the brokers say."""
        reader = Consumer({"bootstrap.servers": self.brokers.outside(), "group.id": "truth"})
        try:
            end = reader.get_watermark_offsets(KafkaPartition("t", partition), timeout=10.0)[1]
        finally:
            reader.close()
        return end - (self.brokers.committed()[partition] or 0)

    def state(self) -> Any:
        """Return what the page is made of."""
        return json.loads(ask(port_of(self.app), "/state")[1])

    def answers(self) -> Answers:
        """Return all that is shown at this moment."""
        before = self.lag()
        health, state, snapshot = self.app.health(), self.state(), self.app.snapshot()
        pages = {one["partition"]["partition"]: one for one in state["snapshot"]["partitions"]}
        place = ["--group", "g", "--endpoint", self.brokers.outside(), "--json"]
        command = json.loads(CliRunner().invoke(cli, ["lag", "t", *place]).stdout)
        return Answers(
            lag=snapshot.partitions[1].lag_records,
            total=snapshot.lag_records,
            page=pages[1]["lag_records"],
            metric=self.shown.value("ehkafka_lag_records", partition="1"),
            command=command["partitions"][1]["lag"],
            health=" ".join(health.reasons),
            page_health=" ".join(state["health"]["reasons"]),
            log=list(self.log),
            idle=set(self.idle),
            truth=(self.lag(), before),
        )

    def close(self) -> None:
        """End it, with all faults healed."""
        self.brokers.heal()
        self.gate.set()
        with suppress(ehkafka.EhkafkaError):  # records are left, on purpose
            self.app.stop()
        self.brokers.close()


@dataclass(frozen=True)
class Answers:
    """What was shown, and between which lags the true one was."""

    lag: int | None
    total: int | None
    page: int | None
    metric: float | None
    command: int
    health: str
    page_health: str
    log: list[str]
    idle: set[int]
    truth: tuple[int, int]


@dataclass(frozen=True)
class State:
    """How a state comes about, and what has to be shown in it."""

    fault: Callable[[Scene], object] = lambda _scene: None
    key: bytes = b"good"
    options: Mapping[str, Any] = field(default_factory=dict)
    # Whether the second partition's lag can be known; a part of the reason why health is red, and of the one
    # line in the log; partitions that have nothing to handle, and a broker says so.
    knows: bool = True
    health: str = ""
    log: str = ""
    idle: frozenset[int] = frozenset({0})
    slack: int = 0
    at_start: bool = False


SMALL = {"backlog_records_max": 50, "consume_records_max": 25}
LEADER = "t[1]: broker 2 (127.0.0.1:"
SILENT = (
    "so the lag of t[1] is unknown: check that this broker runs, leads these partitions, and is reached by "
    "this host."
)
STATES = {
    "paused by hand": State(lambda scene: scene.app.keys.pause_partition("t/1")),
    "parked full": State(key=b"bad", options={"parked_records_max": 20}, health="t[1] has reached its limit"),
    "backlog full": State(key=b"stuck", options=SMALL),
    "leader silent": State(lambda scene: scene.brokers.refuse(1), knows=False, health=LEADER, log=SILENT),
    "broker frozen": State(lambda scene: scene.brokers.swallow(1), knows=False, health=LEADER, log=SILENT),
    "broker frozen at the start": State(
        lambda scene: scene.brokers.swallow(1), knows=False, health=LEADER, log=SILENT, at_start=True
    ),
    "all brokers away": State(
        lambda scene: scene.brokers.refuse(0, 1),
        knows=False,
        health="No broker of 127.0.0.1",
        log="no broker of 127.0.0.1",
        idle=frozenset(),
    ),
    "slow app": State(key=b"slow", options=SMALL, slack=SLACK),
}


def _play(state: State, brokers: GuardedBrokers) -> Scene:
    scene = Scene(brokers, state.options, state.key)
    scene.play(state.fault, at_start=state.at_start)
    # Whatever else shows by then is looked at afterwards.
    wait_until(lambda: len(scene.log) >= bool(state.log), timeout_s=SHOWN_S)
    wait_until(lambda: state.health in " ".join(scene.app.health().reasons), timeout_s=SHOWN_S)
    wait_until(lambda: set(scene.idle) >= state.idle, timeout_s=SHOWN_S)
    return scene


@pytest.fixture(scope="module")
def answers() -> Iterator[Mapping[str, Answers]]:
    """Play all states at once, and return what is shown in each."""
    with (
        pytest.MonkeyPatch.context() as patch,
        other_process() as brokers,
        ThreadPoolExecutor(len(STATES)) as pool,
    ):
        patch.delenv("EHKAFKA_HTTP_TOKEN", raising=False)
        played = pool.map(_play, STATES.values(), [brokers() for _ in STATES])
        scenes = dict(zip(STATES, played, strict=True))
        try:
            yield {name: scene.answers() for name, scene in scenes.items()}
        finally:
            list(pool.map(Scene.close, scenes.values()))


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize(
    "where", ["lag", "page", "metric", "command", "idle", "health", "page_health", "log"]
)
def test_what_is_shown_is_true(answers: Mapping[str, Answers], name: str, where: str) -> None:
    """Or it is not shown: a lag that nothing proves is unknown, and health says which broker is silent."""
    state, found = STATES[name], answers[name]
    value, (least, most) = getattr(found, where), found.truth
    if where in ("health", "page_health"):
        assert state.health in value if state.health else value == ""
    elif where == "log":
        assert [state.log in line for line in value] == [True] * bool(state.log), value
    elif where == "idle":
        assert value == state.idle
    elif where == "command" or state.knows:
        assert least - state.slack <= value <= most + state.slack
    else:
        assert (value, found.total) == (None, None)


def test_the_states_are_what_they_are_called(answers: Mapping[str, Answers]) -> None:
    """In each one something waits that the app has not handled; else nothing could be wrong."""
    assert all(one.truth[0] > 2 * SLACK for one in answers.values())


def test_retention_that_deletes_what_a_paused_partition_has_not_read_is_reported_at_once(
    lab: Any, recorder: Any, events: Any
) -> None:
    """Not only when it is resumed; until then the lag counts it, as Kafka's own tools do."""
    lab.produce("a b c")
    # A pause by hand ends with its assignment.
    app = lab.start(recorder, unreachable_s=UNREACHABLE_S, on_out_of_range="earliest", consumer=ALONE)
    wait_until(lambda: recorder.count == 3)
    app.keys.pause_partition("t/0")
    lab.produce("d e f g h")
    wait_until(lambda: app.snapshot().lag_records == 5)
    lab.broker.delete_records("t", 0, 5)
    deleted = wait_until(lambda: events.of(UnreadDeleted))
    assert [(one.next_offset, one.log_start, one.deleted_records) for one in deleted] == [(3, 5, 2)]
    assert any("deleted 2 records of t[0]" in reason for reason in app.health().reasons)
    assert events.of(OffsetGap) == []
    app.keys.resume_partition("t/0")
    wait_until(lambda: recorder.count == 6)
    assert [gap.lost_records for gap in wait_until(lambda: events.of(OffsetGap))] == [2]
    wait_until(lambda: app.health().ok)
