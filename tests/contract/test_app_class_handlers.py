"""Class handlers: one instance per partition, opened before its first record and closed after its last."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from tests.kit.waiting import must_stay, wait_until


class Counting:
    """A class handler that tells what happens to its instances."""

    seen: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self) -> None:
        self.partition: Any = None

    def open(self, partition: Any) -> None:
        """Remember the partition."""
        self.partition = partition
        self.seen.append(("open", partition, id(self), threading.current_thread().name))

    def process(self, record: Any) -> None:
        """Handle a record."""
        assert (record.topic(), record.partition()) == self.partition
        self.seen.append(("record", self.partition, id(self)))

    def close(self, reason: str) -> None:
        """Say goodbye."""
        self.seen.append(("close", self.partition, id(self), reason))


def test_a_class_handler_gets_one_instance_per_partition(lab: Any) -> None:
    """Open before the first record, close with the reason after the last, one instance throughout."""

    class Mine(Counting):
        seen: ClassVar[list[tuple[Any, ...]]] = []

    for partition in range(4):
        lab.produce("a b c d e", topic="t4", partition=partition)
    app = lab.start(Mine, "t4")
    wait_until(lambda: sum(word[0] == "record" for word in Mine.seen) == 20)
    app.stop()
    instances = set()
    for partition in range(4):
        mine = [word for word in Mine.seen if word[1] == ("t4", partition)]
        assert [word[0] for word in mine] == ["open", *["record"] * 5, "close"]
        assert mine[-1][3] == "stopped"
        assert mine[0][3] == "ehkafka-hooks"
        instances |= {word[2] for word in mine}
    assert len(instances) == 4


def test_an_instance_is_closed_as_lost_and_a_new_one_opened(lab: Any) -> None:
    """After a loss the next assignment has an instance of its own."""
    from ehkafka.testing import ApiKey  # noqa: PLC0415

    class Mine(Counting):
        seen: ClassVar[list[tuple[Any, ...]]] = []

    app = lab.start(Mine)
    lab.produce("a")
    wait_until(lambda: lab.committed() == 1)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_until(lambda: len([word for word in Mine.seen if word[0] == "open"]) == 2)
    lab.produce("b")
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert [(word[0], word[3]) for word in Mine.seen if word[0] == "close"] == [
        ("close", "lost"),
        ("close", "stopped"),
    ]


def test_no_record_is_handled_before_open_has_returned(lab: Any) -> None:
    """A slow open holds back its own partition's records, and only those."""
    gate = threading.Event()

    class Mine(Counting):
        seen: ClassVar[list[tuple[Any, ...]]] = []

        def open(self, partition: Any) -> None:
            assert gate.wait(20.0)
            super().open(partition)

    app = lab.start(Mine)
    lab.produce("a b c")
    wait_until(lambda: app.snapshot().received_records == 3)
    must_stay(lambda: not Mine.seen)
    gate.set()
    wait_until(lambda: lab.committed() == 3)


def test_a_close_that_raises_is_reported_and_the_commit_stands(lab: Any, events: Any) -> None:
    """The stop ends in good order."""
    from ehkafka.events import UserCodeFailed  # noqa: PLC0415

    class Mine(Counting):
        seen: ClassVar[list[tuple[Any, ...]]] = []

        def close(self, reason: str) -> None:
            raise ConnectionError("cannot flush")

    lab.produce("a b")
    app = lab.start(Mine)
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    (failed,) = events.of(UserCodeFailed)
    assert failed.where == "closing t[0]"


def test_a_close_at_the_stop_has_the_stops_own_time(lab: Any) -> None:
    """A flush that takes its time ends before on_stop closes what it flushes to."""
    gate = threading.Event()

    class Mine(Counting):
        seen: ClassVar[list[tuple[Any, ...]]] = []

        def close(self, reason: str) -> None:
            assert gate.wait(10.0)
            self.seen.append(("close", reason))

    lab.produce("a")
    app = lab.app(Mine)
    app.on_stop(lambda: Mine.seen.append(("on_stop",)))
    app.start()
    wait_until(lambda: lab.committed() == 1)
    stopping = threading.Thread(target=app.stop)
    stopping.start()
    stopping.join(2.5)  # longer than what is left after a deadline
    gate.set()
    stopping.join(10.0)
    assert Mine.seen[-2:] == [("close", "stopped"), ("on_stop",)]
