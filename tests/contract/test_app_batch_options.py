"""Which batch handlers and options are refused, middleware around a batch, and async batches."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import ehkafka
from tests.contract.batch_store import Store

# --- registration ---


def new_app(**settings: Any) -> Any:
    """An app that reaches nothing."""
    return ehkafka.App(
        group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="earliest", **settings
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_records_max": 0}, "batch_records_max=0; use a number from 1"),
        ({"batch_records_max": 2.5}, "batch_records_max=2.5"),
        ({"batch_records_max": True}, "batch_records_max=True"),
        ({"batch_bytes_max": 0}, "batch_bytes_max=0; use a number of bytes"),
        ({"wait_s_max": -1}, "wait_s_max=-1; use a number of seconds"),
        ({"wait_s_max": float("nan")}, "wait_s_max=nan"),
        ({"wait_s_max": "1"}, "wait_s_max='1'"),
        ({"workers": 0}, "workers=0"),
        ({"workers": 10_001}, "workers=10001"),
        ({"retry": 3}, "retry=3"),
        ({"order_by": "key"}, "order_by='key'; it is not callable"),
    ],
)
def test_options_that_cannot_work_are_refused_where_they_stand(options: dict[str, Any], words: str) -> None:
    """Value and fix, at registration."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        new_app().batch_handler("t", **options)(lambda _batch: None)


class _Class:
    """A class handler."""

    def process(self, _batch: ehkafka.Batch) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("handler", "words"), [(_Class, "one instance per partition"), (3, "function=3")])
def test_handlers_that_cannot_take_batches_are_refused(handler: Any, words: str) -> None:
    """With what to do instead."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words):
        new_app().batch_handler("t")(handler)


def test_a_batch_larger_than_the_backlog_is_refused_at_the_start() -> None:
    """It would never fill: every batch would wait in vain."""
    app = new_app(backlog_records_max=1_000)
    app.batch_handler("t", batch_records_max=2_000)(lambda _batch: None)
    with pytest.raises(
        ehkafka.errors.ConfigurationError, match="waits for 2000 records, but backlog_records_max=1000"
    ):
        app.start()


def test_one_topic_has_one_handler_of_either_kind() -> None:
    """A batch handler beside a handler of the same topic is refused."""
    app = new_app()
    app.handler("t")(lambda _record: None)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="one handler per topic"):
        app.batch_handler("t")(lambda _batch: None)


def test_middleware_wraps_a_batch_handler_with_the_batch(lab: Any, store_app: Any, wait_for: Any) -> None:
    """Its first argument is the batch; what it raises fails the batch."""
    seen: list[int] = []
    store = Store()
    app = store_app(store, batch_records_max=2)

    @app.use
    def middleware(batch: ehkafka.Batch, call_next: Any) -> Any:
        seen.append(len(batch))
        return call_next(batch)

    lab.produce("a b")
    app.start()
    wait_for(lambda: store.finished == 2)
    app.stop()
    assert seen == [2]


# --- async ---


class AsyncStore:
    """An async batch handler that says where it runs and who runs at once."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.sizes: list[int] = []
        self.running = self.running_max = 0
        self.threads: set[str] = set()

    async def __call__(self, batch: ehkafka.Batch) -> None:
        """Handle a batch; fail its first record once."""
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        self.threads.add(threading.current_thread().name)
        await asyncio.sleep(0.02)
        self.running -= 1
        self.sizes.append(len(batch))
        if self.error is not None:
            raise self.error
        if batch[0].attempt == 1 and len(self.sizes) == 1:
            batch.fail(batch[0], ValueError("once more"))


def test_async_batches_run_side_by_side_on_one_loop(lab: Any, wait_for: Any) -> None:
    """Three at a time, results as for plain functions; a stop from within ends the app."""
    store = AsyncStore()
    lab.produce(" ".join(f"k{n}" for n in range(60)))
    app = lab.app()
    retry = ehkafka.Retry(attempts=2, first_s=0.01)
    app.batch_handler("t", batch_records_max=5, workers=3, wait_s_max=0.05, retry=retry)(store)
    app.start()
    wait_for(lambda: lab.committed() == 60)
    app.stop()
    assert store.running_max == 3
    assert sum(store.sizes) >= 61
    assert store.threads == {"ehkafka-AsyncStore-loop"}


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()])
def test_an_async_batch_that_wants_to_leave_stops_the_app(lab: Any, error: BaseException) -> None:
    """The loop survives it, the app ends visibly and commits nothing of it."""
    lab.produce("a b")
    app = lab.app()
    app.batch_handler("t", batch_records_max=2, on_failure=ehkafka.Skip())(AsyncStore(error))
    app.start()
    assert app.wait(10.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=type(error).__name__):
        app.stop()
    assert lab.committed() in (None, 0)


def test_an_async_batch_may_ask_for_the_stop_itself(lab: Any, wait_for: Any) -> None:
    """It would wait for itself: it returns at once, and the batch counts."""
    app = lab.app()

    @app.batch_handler("t", batch_records_max=2)
    async def last(batch: ehkafka.Batch) -> None:
        assert len(batch) == 2
        app.stop()

    lab.produce("a b")
    app.start()
    assert app.wait(10.0)
    app.stop()
    assert lab.committed() == 2
