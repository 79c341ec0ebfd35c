"""Handlers whose keys are not read while calls are quick: whatever is shown of their records has its key.

The apps have no history: it is shown each call's key, so with one all keys are read.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import StuckReport
from tests.contract.conftest import FAST_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def app_of(lab: Any, events: Any) -> Iterator[Any]:
    """Return what makes an app without a history, whose handler waits for `gate` at `bad`."""
    gate = threading.Event()

    def make(*, is_async: bool = False, workers: int = 1, **options: Any) -> Any:
        settings = {"group": "g", "start": "earliest", "endpoint": lab.endpoint, **options}
        app = ehkafka.App(consumer=FAST_GROUP, **settings)
        app.add_hook(events)

        def handle(record: ehkafka.Record) -> None:
            if record.value() == b"bad":
                assert gate.wait(60.0)

        async def handle_async(record: ehkafka.Record) -> None:
            while record.value() == b"bad" and not gate.is_set():  # noqa: ASYNC110 - a test's gate
                await asyncio.sleep(0.005)

        app.handler("t", workers=workers)(handle_async if is_async else handle)
        lab.apps.append(app)
        return app

    yield make
    gate.set()


@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_a_stuck_call_is_named_with_its_key(
    lab: Any, app_of: Any, events: Any, wait_for: Any, *, is_async: bool
) -> None:
    """Also where one worker runs all, so that nothing else has asked for the keys."""
    lab.broker.produce("t", [(b"a", b""), (b"b", b"bad"), (b"c", b"")], partition=0)
    app_of(is_async=is_async, stuck_s=0.3).start()
    wait_for(lambda: events.of(StuckReport))
    report = events.of(StuckReport)[0]
    assert report.running == ("t[0]@1 key b",)
    assert "UNREAD" not in repr(report)
