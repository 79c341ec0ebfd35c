"""A call that runs while its partition goes and comes back: its key waits for it, other keys do not.

In every kind of workers, however the partition went. Handlers write down what they do; that is judged by key
over all epochs of the process.
"""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

import ehkafka
from ehkafka.events import PartitionAssigned, PartitionLost, PartitionRevoked
from ehkafka.testing import ApiKey
from tests.contract.conftest import FAST_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARTITIONS = 4
WORKERS = 6
# Long enough for a rebalance on busy cores, and a session that ends while a test waits.
GROUP = {"session.timeout.ms": 2_000}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "threads": ("handle", {"workers": WORKERS}),
    # A call that ends when it is cancelled does not outlive its epoch.
    "async": ("handle_stubborn", {"workers": WORKERS}),
    "batch": ("handle_batch", {"workers": WORKERS, "batch_records_max": 2, "wait_s_max": 0.0}),
    "processes": ("handle", {"workers": ehkafka.Processes(WORKERS)}),
    "class": ("Handler", {"workers": WORKERS}),
}


class Written:
    """What handlers wrote down in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def lines(self) -> list[list[str]]:
        """Each as `start`, `end` or `raise`, topic, partition, offset, key and attempt."""
        path = self._directory / "lines"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def count(self, word: str, key: str) -> Counter[str]:
        """How many calls for a key have started, or ended, by partition."""
        return Counter(line[2] for line in self.lines() if (line[0], line[4]) == (word, key))

    def overlaps(self) -> list[list[str]]:
        """The starts of calls while another one of their key ran."""
        running: Counter[tuple[str, str]] = Counter()
        found = []
        for line in self.lines():
            name = line[2], line[4]
            if line[0] == "start" and running[name]:
                found.append(line)
            running[name] += 1 if line[0] == "start" else -1
        return found

    def open_gate(self) -> None:
        """Let go on what waits."""
        (self._directory / "gate").touch()


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """Let the handlers write into a directory of the test's own."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("EHKAFKA_CONTRACT_DIRECTORY", str(tmp_path))
    written = Written(tmp_path)
    yield written
    written.open_gate()


def revoke(lab: Any, events: Any, wait_for: Any) -> None:
    """Let another member join, have some partitions and leave."""
    other = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "g", **FAST_GROUP, **GROUP})
    other.subscribe(["t4"])
    try:
        wait_for(lambda: other.poll(0.05) is not None or other.assignment(), timeout_s=20.0)
        wait_for(lambda: events.of(PartitionRevoked), timeout_s=20.0)
    finally:
        other.close()


def revoke_cooperatively(lab: Any, events: Any, wait_for: Any) -> None:
    """Do the same by the other protocol."""
    options = {"partition.assignment.strategy": "cooperative-sticky", **FAST_GROUP, **GROUP}
    other = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "g", **options})
    other.subscribe(["t4"])
    try:
        wait_for(lambda: other.poll(0.05) is not None or events.of(PartitionRevoked), timeout_s=20.0)
    finally:
        other.close()


def lose(lab: Any, events: Any, wait_for: Any) -> None:
    """Let the group forget the member."""
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: events.of(PartitionLost), timeout_s=20.0)


def go_away(lab: Any, events: Any, wait_for: Any) -> None:
    """Let the broker be away for longer than the session."""
    lab.broker.take_down()
    wait_for(lambda: events.of(PartitionLost), timeout_s=20.0)
    lab.broker.bring_up()


WAYS: dict[str, Callable[[Any, Any, Any], None]] = {"revoked": revoke, "lost": lose, "away": go_away}


@pytest.mark.parametrize("assignor", ["default", "cooperative-sticky"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_keeps_its_key_until_it_ends_wherever_its_partition_goes(
    lab: Any, events: Any, written: Written, wait_for: Any, stays: Any, kind: str, way: str, assignor: str
) -> None:
    """Its key's next record starts only after it has ended; other keys go on at once."""
    contract_handlers = importlib.import_module("contract_handlers")  # as children import it
    handler, options = KINDS[kind]
    everywhere = Counter({str(partition): 1 for partition in range(PARTITIONS)})
    for partition in range(PARTITIONS):
        lab.broker.produce("t4", [(b"long", b"wait gate"), (b"long", b"")], partition=partition)
    app: Any = ehkafka.App(
        group="g",
        endpoint=lab.endpoint,
        start="earliest",
        commit_interval_s=0.1,
        assignor=assignor,  # type: ignore[arg-type]
        drain_s=0.2,
        consumer={**FAST_GROUP, **GROUP},
    )
    register = app.batch_handler if kind == "batch" else app.handler
    register("t4", **options)(getattr(contract_handlers, handler))
    app.add_hook(events)
    lab.apps.append(app)
    app.start()
    wait_for(lambda: written.count("start", "long") == everywhere, timeout_s=20.0)

    begin = revoke_cooperatively if (way, assignor) == ("revoked", "cooperative-sticky") else WAYS[way]
    begin(lab, events, wait_for)
    wait_for(
        lambda: (
            len(events.of(PartitionAssigned)) > PARTITIONS and len(app.snapshot().partitions) == PARTITIONS
        ),
        timeout_s=20.0,
    )

    for partition in range(PARTITIONS):
        lab.broker.produce("t4", [(b"other", b"")], partition=partition)
    wait_for(lambda: written.count("end", "other").keys() == everywhere.keys(), timeout_s=10.0)
    stays(lambda: written.count("start", "long") == everywhere)

    written.open_gate()
    wait_for(
        lambda: all(lab.committed(partition, topic="t4") == 3 for partition in range(PARTITIONS)),
        timeout_s=20.0,
    )
    app.stop()
    assert not written.overlaps()
