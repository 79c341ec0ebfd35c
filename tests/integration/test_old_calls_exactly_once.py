"""A call that outlives its partition's assignment, in an app that sends exactly once.

What it has sent, and sends from then on, is in no transaction; its key waits for it here, and the next call
of its record sends all of it, once.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

import ehkafka
from ehkafka.events import PartitionAssigned, PartitionLost, PartitionRevoked
from tests.integration.sent import TIMEOUT_S, place_of
from tests.kit.events import Events
from tests.kit.inside import inside
from tests.kit.topic_read import read_all
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker
OLD, OTHERS = b"old", [b"key-%d" % number for number in range(10)]
FOLDER = "EHKAFKA_OLD_CALLS"
# Apache Kafka takes no session that is longer than this.
POLL_MS = 4_000


def _waits(record: Any) -> bool:
    """Tell whether this is the first call of all for the first record of the old key; it is written down."""
    folder = Path(os.environ[FOLDER])
    if record.key() != OLD:
        return False
    number = len(list(folder.glob("call-*")))
    (folder / f"call-{number}-{record.offset()}").touch()
    return number == 0


def _is_over() -> bool:
    return (Path(os.environ[FOLDER]) / "go").exists()


def sending(record: Any) -> str:
    """Send before a wait, and after it."""
    record.send(f"{place_of(record)} before", key=record.key())
    if _waits(record):
        while not _is_over():
            time.sleep(0.01)
    return f"{place_of(record)} after"


async def sending_stubbornly(record: Any) -> str:
    """Do it in a task, which does not end when it is cancelled."""
    record.send(f"{place_of(record)} before", key=record.key())
    waits = _waits(record)
    while waits and not _is_over():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue
    return f"{place_of(record)} after"


def sending_batch(batch: Any) -> None:
    """Do it for the records of a batch."""
    for record in batch:
        record.send(sending(record), key=record.key())


def deferring(record: Any) -> None:
    """Let the record wait for an answer of another thread, which sends before it answers."""
    record.send(f"{place_of(record)} before", key=record.key())
    token = record.defer(deadline_s=120.0)
    waits = _waits(record)

    def end() -> None:
        while waits and not _is_over():
            time.sleep(0.01)
        try:
            record.send(f"{place_of(record)} after", key=record.key())
        except RuntimeError as error:
            token.fail(error)
        else:
            token.finish()

    threading.Thread(target=end, daemon=True).start()


KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "threads": (sending, {"workers": 4}),
    "tasks": (sending_stubbornly, {"workers": 20}),
    "deferred": (deferring, {"workers": 2}),
    "batches": (sending_batch, {"workers": 2, "batch_records_max": 20, "wait_s_max": 0.05}),
    "processes": (sending, {"workers": ehkafka.Processes(2)}),
}


class Old:
    """A topic of one partition, an app whose first call waits, and what readers see of it."""

    def __init__(self, stage: Any, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        self.out = f"{stage.topic}-out"
        stage.broker.create_topic(self.out, 1)
        self.load = stage.load()
        self.events = Events()
        self.app: Any = None

    def start(self, kind: str, **consumer: Any) -> None:
        """Start the app, and wait until the call waits and all other keys are done."""
        handler, options = KINDS[kind]
        settings = {"exactly_once": True, "commit_interval_s": 0.1, "drain_s": 0.5, "consumer": consumer}
        self.app = self.stage.app(handler, to=self.out, **settings, **options)
        self.app.add_hook(self.events)
        self.load.put_all(OLD, OLD, *OTHERS)
        self.app.start()
        wait_until(lambda: len(self.calls()) == 1, timeout_s=TIMEOUT_S)

    def calls(self) -> list[str]:
        """Return the offsets of the old key's calls, in their order."""
        found = sorted(self.folder.glob("call-*"), key=lambda path: int(path.name.split("-")[1]))
        return [path.name.split("-")[2] for path in found]

    def revoke(self) -> None:
        """Let another member join and leave."""
        properties = {"bootstrap.servers": self.stage.broker.bootstrap, "group.id": self.stage.group}
        guest = Consumer({**properties, "enable.auto.commit": False, "session.timeout.ms": 3_000})
        guest.subscribe([self.stage.topic])
        try:
            # Its own calls keep the group's rebalance going.
            wait_until(
                lambda: self.events.of(PartitionRevoked),
                timeout_s=TIMEOUT_S,
                meanwhile=lambda: guest.consume(1, 0.05),
            )
        finally:
            guest.close()

    def lose(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the poll thread hang for longer than the group lets it."""
        hung: list[float] = []
        watch = inside(self.app).loop.watch

        def hang() -> bool:
            if not hung:
                hung.append(time.monotonic())
                time.sleep(POLL_MS / 1000 + 2.0)
            return bool(watch())

        monkeypatch.setattr(inside(self.app).loop, "watch", hang)
        wait_until(lambda: self.events.of(PartitionLost), timeout_s=TIMEOUT_S)

    def wait_until_back(self) -> None:
        """Wait until the app has the partition again, and has received what is not finished."""
        wait_until(lambda: len(self.events.of(PartitionAssigned)) > 1, timeout_s=TIMEOUT_S)
        wait_until(
            lambda: self.app.snapshot().partitions and self.app.snapshot().partitions[0].watermark == 0,
            timeout_s=TIMEOUT_S,
        )

    def outputs(self) -> dict[bytes, list[str]]:
        """Return what readers see, by key, in its order."""
        found = defaultdict(list)
        for key, value in read_all(self.stage.broker.bootstrap, self.out):
            found[key].append(value.decode())
        return dict(found)


@pytest.fixture
def old(
    kafka: KafkaBroker, stage_on: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Return the stage of an old call; it may go on at the end in any case."""
    folder = tmp_path / "old-calls"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    yield Old(stage_on(kafka, 1), folder)
    (folder / "go").touch()


def _of(*offsets: int) -> list[str]:
    return [f"0:{offset} {when}" for offset in offsets for when in ("before", "after")]


@pytest.mark.parametrize(
    ("kind", "way"), [*((kind, "revoked") for kind in KINDS), ("threads", "lost"), ("batches", "lost")]
)
def test_what_an_old_call_sends_is_in_no_transaction(
    old: Old, monkeypatch: pytest.MonkeyPatch, kind: str, way: str
) -> None:
    """All outputs are seen once, each key's in order, and the key's next call waits for the old one."""
    old.start(kind, **({"max.poll.interval.ms": POLL_MS} if way == "lost" else {}))
    others = {key: _of(2 + number) for number, key in enumerate(OTHERS)}
    if kind != "batches":
        # Its batch has them, too, and ends none of them.
        wait_until(lambda: old.outputs() == others, timeout_s=TIMEOUT_S)
    if way == "lost":
        old.lose(monkeypatch)
    else:
        old.revoke()
    old.wait_until_back()
    must_stay(lambda: len(old.calls()) == 1, for_s=0.5)
    assert OLD not in old.outputs()
    (old.folder / "go").touch()
    old.stage.wait_until_committed({0: 2 + len(OTHERS)}, TIMEOUT_S)
    old.app.stop()
    # What an old batch sends is dropped once it has ended, so it goes on with its next record.
    assert old.calls() == [*("01" if kind == "batches" else "0"), "0", "1"]
    assert old.outputs() == {OLD: _of(0, 1), **others}
