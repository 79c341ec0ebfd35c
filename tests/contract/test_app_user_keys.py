"""Keys of a user's own class that look at the app they are in: the engine holds no lock of its own then."""

from __future__ import annotations

import inspect
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed, RecordRetried, RecordSkipped
from ehkafka.workers.hub import Hub
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.kinds import Stage


class Curious:
    """A key that looks at the app whenever it is asked for anything."""

    app: Any = None

    def __init__(self, name: bytes) -> None:
        self.name = name

    def _check(self) -> None:
        if self.app is not None:
            self.app.snapshot()

    def __hash__(self) -> int:
        self._check()
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        self._check()
        return isinstance(other, Curious) and other.name == self.name

    def __str__(self) -> str:
        return self.name.decode()

    __repr__ = __str__


class Talkative(Curious):
    """One that also looks at it when asked for its text, which that look needs, too."""

    app: Any = None
    depths: list[int]

    def __str__(self) -> str:
        self.depths.append(sum(frame.function == "__str__" for frame in inspect.stack(0)))
        self._check()
        return self.name.decode()


class OwnedLock:
    """A lock that tells its owner, who would wait for itself for ever, apart from everybody else."""

    def __init__(self, entered: list[str]) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._entered = entered

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; refuse to wait for oneself."""
        if blocking and self._owner == threading.get_ident():
            self._entered.append("".join(traceback.format_stack()))
            raise RuntimeError("user code ran under a lock of the engine")
        if not self._lock.acquire(blocking):
            return False
        self._owner = threading.get_ident()
        return True

    def release(self) -> None:
        """Let the next one have it."""
        self._owner = None
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.fixture(autouse=True)
def owned_locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What would wait for itself for ever fails instead, and says where."""
    entered: list[str] = []
    init = Hub.__init__

    def with_owned_lock(self: Hub, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self._lock = OwnedLock(entered)  # type: ignore[assignment]

    monkeypatch.setattr(Hub, "__init__", with_owned_lock)
    monkeypatch.setattr(Talkative, "depths", [], raising=False)
    yield
    assert not entered, entered[0]
    # A stack that grows until it is full breaks whatever the engine is at then.
    assert max(Talkative.depths, default=1) == 1


def test_a_key_whose_text_looks_at_the_app(
    lab: Any, recorder: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where keys are reported: a pause, a retry, the snapshot, a stop that leaves records."""
    lab.produce("a a a a a b")
    recorder.fail_at(0)
    app = lab.app(
        recorder,
        order_by=lambda record: Talkative(record.key()),
        on_failure=ehkafka.Hold(),
        parked_records_max=4,
        consume_records_max=2,
    )
    monkeypatch.setattr(Talkative, "app", app)
    app.start()
    wait_until(lambda: events.of(ehkafka.events.ParkedBudgetFull))
    assert app.health() is not None


POLICIES: dict[str, dict[str, Any]] = {
    "hold": {"on_failure": ehkafka.Hold()},
    "skip": {"on_failure": ehkafka.Skip()},
    "retry": {"retry": ehkafka.Retry(attempts=2, first_s=60.0, max_s=60.0)},
    "again": {"retry": ehkafka.Retry(attempts=2, first_s=0.01), "on_failure": ehkafka.Skip()},
    "topic": {"on_failure": ehkafka.DeadLetter("dead")},
    "function": {"on_failure": ehkafka.DeadLetter(lambda _letter: None)},
    "hold its key": {"on_failure": ehkafka.DeadLetter("dead", after="hold_key")},
}


@pytest.mark.parametrize(
    ("stage", "scope"),
    [("threads", "partition"), ("threads", "handler"), ("tasks", "partition"), ("batches", "partition")],
    indirect=["stage"],
)
@pytest.mark.parametrize("policy", POLICIES)
def test_keys_look_at_the_app_wherever_a_failure_names_them(
    stage: Stage, scope: str, policy: str, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever becomes of the failed record: no key is described under a lock, nor what a stop leaves."""
    stage.lab.broker.create_topic("dead", 1)
    for key in ["bad", "a", "bad", "a", "b"]:
        stage.produce((key, "fail ValueError 9" if key == "bad" else ""))
    app = stage.app(order_by=lambda record: Talkative(record.key()), scope=scope, **POLICIES[policy])
    monkeypatch.setattr(Talkative, "app", app)
    app.start()
    wait_until(lambda: any(events.of(one) for one in (HandlerFailed, RecordRetried, RecordSkipped)))
    # The healthy keys; how many of the others ended by then is the policy's.
    wait_until(lambda: app.snapshot().finished_records >= 3)
    # A held key turns it red, once the letter that comes first is safe.
    wait_until(lambda: app.health().ok is (policy not in {"hold", "hold its key"}))
    app.stop()
