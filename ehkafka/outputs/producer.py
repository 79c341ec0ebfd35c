"""`app.producer`: sends what belongs to no record. Any thread, and coroutines."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from ehkafka.outputs.own_producer import Delivered, OwnProducer
    from ehkafka.outputs.send import Headers

# A coroutine that waits for room checks again after this time, while the others of its loop run.
ROOM_CHECK_S = 5e-3


class AppProducer:
    """Sends messages with the app's endpoint, settings and credentials, from `on_start` through `on_stop`.

    Made by `App.producer`. A message belongs to no record: no commit waits for it. To send the result of a
    record, use an output (`to=`, `record.send`). Messages of one key go to one partition in the order in
    which they were sent, unless one of them fails. A message fails if the broker refuses it, or has not
    written it within `message.timeout.ms` (two minutes, `App(producer={…})`): then its future raises, and the
    failure is logged and counted.
    """

    def __init__(self, of_run: Callable[[], OwnProducer]) -> None:
        """`of_run` raises `ConfigurationError` while the app does not run."""
        self._of_run = of_run

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Future[Delivered]:
        """Send one message, and return its future at once. The future's result is the message's position.

        - `topic` (required): the topic's name. If the topic does not exist, the future fails.
        - `value` (required): bytes, text, a dict, list, dataclass or model, which is sent as JSON, or None.
        - `key` (default `None`): bytes or text. `None`: the message has no key.
        - `headers` (default `None`): name and value pairs, or a mapping.
        - `partition` (default `None`): the partition's number. `None`: the key decides.

        While 50 000 messages or 64 MiB have no answer, `send` waits until there is space. On the thread of an
        event loop, it raises `NotDeliveredError` instead: use `asend`. The future's `cancel` has no effect.
        The future's callbacks (`add_done_callback`) run on the thread that sends, and must return quickly.

        The future raises `NotDeliveredError`. `send` raises `TypeError` or `ValueError` for a message that
        cannot be encoded or is too large, and `ConfigurationError` while the app does not run here.
        """
        run = self._of_run()
        message = run.message(topic, value, key=key, headers=headers, partition=partition)
        if not run.take(message, waits=not _is_on_a_loop()):
            raise run.no_room(topic)
        return message.future

    async def asend(
        self,
        topic: str,
        value: object,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message and wait until it is written, without blocking the loop.

        The arguments are those of `send`. For many messages at once, use
        `asyncio.wrap_future(app.producer.send(…))` for each. Raises `NotDeliveredError`, and the errors of
        `send`.
        """
        run = self._of_run()
        message = run.message(topic, value, key=key, headers=headers, partition=partition)
        # Another thread makes room, and it cannot set an event of this loop.
        while not run.take(message, waits=False):  # noqa: ASYNC110
            await asyncio.sleep(ROOM_CHECK_S)
        return await asyncio.wrap_future(message.future)

    def flush(self, timeout_s: float | None = None) -> int:
        """Wait until all messages so far are written or have failed; return how many have no answer yet.

        The callbacks of their futures (`add_done_callback`) have returned, too.

        - `timeout_s` (seconds, default `None`): the longest wait. `None`: `message.timeout.ms`.

        In a coroutine: `await asyncio.to_thread(app.producer.flush)`.
        """
        return self._of_run().flush(timeout_s)


def _is_on_a_loop() -> bool:
    if "asyncio" not in sys.modules:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
