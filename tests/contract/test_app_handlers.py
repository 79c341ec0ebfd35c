"""Handlers: functions and classes, raw messages, middleware, and the hooks around them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import confluent_kafka
import pytest

import ehkafka
from ehkafka.events import UserCodeFailed
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_handler_gets_a_record_with_the_messages_own_methods(lab: Any, recorder: Any) -> None:
    """Key, value, headers, place and time are those produced; the attempt is 1."""
    lab.broker.produce("t", [(b"k", b'{"a": 1}')], partition=0, headers={"trace": b"7"})
    app = lab.start(recorder)
    wait_until(lambda: recorder.count == 1)
    app.stop()
    (record,) = recorder.records
    assert isinstance(record, ehkafka.Record)
    assert (record.key(), record.json(), record.header("trace"), record.attempt) == (b"k", {"a": 1}, b"7", 1)
    assert record.where == "t[0]@0"
    assert record.time is not None


def test_raw_hands_over_confluents_message_itself(lab: Any, recorder: Any) -> None:
    """No wrapper, for the handler and for a user's order function alike."""
    ordered: list[Any] = []

    def order_by(message: Any) -> bytes:
        ordered.append(message)
        return bytes(message.key())

    lab.produce("a b")
    app = lab.start(recorder, raw=True, order_by=order_by)
    wait_until(lambda: recorder.count == 2)
    app.stop()
    assert all(type(record) is confluent_kafka.Message for record in [*recorder.records, *ordered])


def handlers(note: Callable[[], None]) -> dict[str, Any]:
    """Return what may be a handler, by its kind; each notes its records."""

    def function(_record: Any) -> None:
        note()

    async def coroutine(_record: Any) -> None:
        note()

    class Class:
        def process(self, record: Any) -> None:
            note()

    class AsyncClass:
        async def process(self, record: Any) -> None:
            note()

    return {"function": function, "async function": coroutine, "class": Class, "async class": AsyncClass}


@pytest.mark.parametrize("kind", handlers(print))
def test_middleware_wraps_every_handler_the_first_one_outermost(lab: Any, kind: str) -> None:
    """Order of entries and exits, once per record; around coroutines each awaits the next."""
    seen: list[str] = []

    def around(name: str) -> Any:
        def plain(record: Any, call_next: Any) -> Any:
            seen.append(f"{name} in")
            result = call_next(record)
            seen.append(f"{name} out")
            return result

        async def awaited(record: Any, call_next: Any) -> Any:
            seen.append(f"{name} in")
            await asyncio.sleep(0)
            result = await call_next(record)
            seen.append(f"{name} out")
            return result

        return awaited if "async" in kind else plain

    app: ehkafka.App = lab.app(handlers(lambda: seen.append("record"))[kind], workers=1)
    app.use(around("outer"))
    app.use(around("inner"))
    lab.produce("a b")
    app.start()
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert seen == ["outer in", "inner in", "record", "inner out", "outer out"] * 2


def test_start_and_stop_hooks_run_once_around_all_records(lab: Any) -> None:
    """on_start in order before the first record, on_stop in reverse after the last."""
    seen: list[str] = []
    app = lab.app(lambda _record: seen.append("record"))
    app.on_start(lambda: seen.append("start 1"))
    app.on_start(lambda: seen.append("start 2"))
    app.on_stop(lambda: seen.append("stop 1"))
    app.on_stop(lambda: seen.append("stop 2"))
    lab.produce("a")
    app.start()
    wait_until(lambda: "record" in seen)
    app.stop()
    app.stop()
    assert seen == ["start 1", "start 2", "record", "stop 2", "stop 1"]


def test_on_stop_runs_also_when_the_app_failed(lab: Any) -> None:
    """What on_start opened is closed after a failing handler too."""
    seen: list[str] = []

    def handler(_record: Any) -> None:
        raise ValueError("no luck")

    app = lab.app(handler)
    app.on_stop(lambda: seen.append("closed"))
    lab.produce("a")
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError)
    assert seen == ["closed"]


def test_worker_hooks_run_once_in_each_worker_thread(lab: Any, recorder: Any) -> None:
    """Set-up before the first record, tear-down after the last, in the threads that handle."""
    starts: Counter[str] = Counter()
    stops: Counter[str] = Counter()
    app = lab.app(recorder, workers=3)
    app.on_worker_start(lambda: starts.update([threading.current_thread().name]))
    app.on_worker_stop(lambda: stops.update([threading.current_thread().name]))
    gate = recorder.block()
    lab.produce("a b c d")
    app.start()
    assert sorted(starts.values()) == [1, 1, 1]
    wait_until(lambda: recorder.running["all"] == 3)
    gate.set()
    wait_until(lambda: recorder.count == 4)
    assert not stops
    app.stop()
    assert starts == stops
    assert recorder.threads == set(starts)


@pytest.mark.parametrize("error", [ConnectionError("cannot close"), SystemExit(3)])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_worker_stop_hook_that_raises_is_reported_and_the_stop_ends(
    lab: Any, recorder: Any, events: Any, error: BaseException, is_async: bool
) -> None:
    """Each worker's hook is an event, not a dead thread's traceback."""

    def broken() -> None:
        raise error

    async def broken_async() -> None:
        raise error

    async def handle(_record: Any) -> None:
        """Handle nothing."""

    app = lab.app(handle if is_async else recorder, workers=2)
    app.on_worker_stop(broken_async if is_async else broken)
    app.start()
    app.stop()
    assert [one.error for one in events.of(UserCodeFailed)] == [f"{type(error).__name__}: {error}"] * (
        2 - is_async
    )


def test_partition_hooks_tell_assignment_idleness_and_revocation(lab: Any, recorder: Any) -> None:
    """on_assigned before the first record; on_idle once after the last; on_revoked at the stop."""
    seen: list[tuple[Any, ...]] = []
    recorder.work = lambda record: seen.append(("record", record.offset()))
    app = lab.app(recorder, workers=1, idle_s=0.3)
    app.on_assigned(lambda partition: seen.append(("assigned", str(partition))))
    app.on_idle(lambda partition: seen.append(("idle", str(partition))))
    app.on_revoked(lambda partition, reason: seen.append(("revoked", str(partition), reason)))
    app.on_lost(lambda partition: seen.append(("lost", str(partition))))
    lab.produce("a b")
    app.start()
    wait_until(lambda: ("idle", "t[0]") in seen)
    lab.produce("c")
    wait_until(lambda: seen.count(("idle", "t[0]")) == 2)
    app.stop()
    assert seen == [
        ("assigned", "t[0]"),
        ("record", 0),
        ("record", 1),
        ("idle", "t[0]"),
        ("record", 2),
        ("idle", "t[0]"),
        ("revoked", "t[0]", "stopped"),
    ]


def test_a_handler_may_have_a_start_position_of_its_own(lab: Any) -> None:
    """The app's start is for the other topics only; a callable decides per partition."""
    mine, others = lab.recorder(), lab.recorder()
    for topic in ("t", "u"):
        lab.produce("a b c d", topic=topic)
    app = lab.app(others, "u")
    app.handler("t", start=lambda _topic, partition: partition + 2)(mine)
    app.start()
    wait_until(lambda: (mine.count, others.count) == (2, 4))
    app.stop()
    assert mine.offsets() == [2, 3]


def test_nothing_is_registered_while_the_app_runs(lab: Any, recorder: Any) -> None:
    """Handlers, middleware and hooks are fixed at the start."""
    app = lab.start(recorder)
    for register in (app.handler("u"), app.use, app.on_start, app.on_error, app.on_assigned):
        with pytest.raises(ehkafka.errors.ConfigurationError, match="before the start"):
            register(print)


# --- classes ---


class Counting:
    """A class handler that tells what happens to its instances."""

    seen: ClassVar[list[tuple[Any, ...]]]

    def __init_subclass__(cls) -> None:
        cls.seen = []

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

    class Mine(Counting): ...

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

    class Mine(Counting): ...

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


def test_a_close_that_raises_is_reported_and_the_commit_stands(lab: Any, events: Any) -> None:
    """The stop ends in good order."""
    from ehkafka.events import UserCodeFailed  # noqa: PLC0415

    class Mine(Counting):
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
