"""What is posted to a hub is done by the thread that has its lock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ehkafka.lanes.inboxes import Inboxes
from ehkafka.workers.hub import Hub

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
