"""What is posted to a hub is done by the thread that has its lock."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.inbox import KEY
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.records import TopicPartition
from ehkafka.workers.hub import Hub
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Inbox


def posting_meanwhile(hub: Hub, function: Callable[[], object]) -> Callable[[], None]:
    """Return what has another thread post a function, to be called while the lock is held."""

    def post() -> None:
        other = threading.Thread(target=hub.post, args=(function,))
        other.start()
        other.join(5.0)
        assert not other.is_alive(), "a consumer waits for the lock"

    return post


@pytest.mark.parametrize("way", ["post", "locked"])
def test_what_is_posted_before_the_lock_is_free_is_done_by_its_holder(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that posted found it taken and went on, so its holder looks again after it let go."""
    hub = Hub(Inboxes(1), lambda: 0.0)
    done: list[str] = []
    take_touched = hub.inboxes.take_touched
    late = posting_meanwhile(hub, lambda: done.append("late"))

    def take_slowly() -> list[Inbox]:
        """Be the last step under the lock."""
        if not done:
            done.append("first")
            late()
        return take_touched()

    monkeypatch.setattr(hub.inboxes, "take_touched", take_slowly)
    if way == "post":
        hub.post(lambda: None)
    else:
        with hub.locked():
            pass
    assert done == ["first", "late"]


def test_a_check_that_gave_records_to_idle_consumers_is_followed_by_another_one_soon() -> None:
    """It takes long because it moves them, and others may still have nothing, who cannot ask again."""
    now_s = 1.0
    hub = Hub(Inboxes(4), lambda: now_s)
    epoch = hub.inboxes.assign(TopicPartition("t", 0), 1)
    hub.watch()
    home = hub.inboxes.inboxes[0]
    messages = [SimulatedMessage("t", 0, offset, b"", b"") for offset in range(40)]
    entries: list[Any] = [(message, message.offset() % 4, 1, epoch) for message in messages]
    epoch.add(entries, 40)
    for entry in entries:
        hub.inboxes.router.put(home, entry)
    # What the poll thread works, by its own clock: 4 ms for each check.
    worked_s = itertools.count(0.0, 4e-3)
    hub._own_s = lambda: next(worked_s)
    for _ in range(100):
        now_s += 1e-3
        hub.watch()
    assert [len({entry[KEY] for entry in inbox.q}) for inbox in hub.inboxes.inboxes] == [1, 1, 1, 1]


def test_to_count_what_has_finished_delays_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of many quick records would else be followed by a rest, in which consumers have nothing."""
    now_s = worked_s = 1.0
    hub = Hub(Inboxes(4), lambda: now_s)
    hub._own_s = lambda: worked_s
    checks: list[float] = []
    note_all, check = hub.inboxes.router.note_all, hub.inboxes.check

    def count_finished() -> None:
        nonlocal worked_s
        if checks and now_s > checks[0] and worked_s == 1.0:
            worked_s += 10e-3  # at the second check: then there is nothing left to count
        note_all()

    monkeypatch.setattr(hub.inboxes.router, "note_all", count_finished)

    def note_check(*how: Any) -> None:
        checks.append(now_s)
        check(*how)

    monkeypatch.setattr(hub.inboxes, "check", note_check)
    for _ in range(30):
        now_s += 1e-3
        hub.watch()
    assert len(checks) >= 5
