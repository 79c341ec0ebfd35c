"""`app.producer`: sends what belongs to no record. Any thread, and coroutines."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from ehkafka.outputs.messages import Delivered
    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.outputs.send import Headers

# Between two looks of a coroutine for room, while others of its loop run.
ROOM_CHECK_S = 5e-3


class AppProducer:
    """Sends messages with the app's endpoint, settings and credentials, from `on_start` through `on_stop`.

    A message is tied to no record: no commit waits for it. What a handler makes of a record is an output
    (`to=`, `record.send`). Messages of one key go to one partition in the order in which they were sent,
    as long as none of them fails. What the broker refuses, or has not taken within `message.timeout.ms` (two
    minutes, `App(producer={…})`), fails its future, and is logged and counted.
    """

    def __init__(self, of_run: Callable[[], OwnProducer]) -> None:
        """`of_run` raises `ConfigurationError` while the app does not run."""
        self._of_run = of_run

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Future[Delivered]:
        """Send one message, and return at once with its future, whose result says where it was written.

        - `topic` (required): its name. No start looks for it, so a missing one fails the future.
        - `value` (required): bytes, text, a dict, list, dataclass or model, which is sent as JSON, or None.
        - `key` (default `None`): bytes or text. `None`: the message has none.
        - `headers` (default `None`): name and value pairs, or a mapping.
        - `partition` (default `None`): its number. `None`: as the key says.

        While 50 000 messages or 64 MiB have no answer it waits for room; on the thread of an event loop it
        raises `NotDeliveredError` then: use `asend` there. `cancel` of the future does nothing. Functions
        that wait for it (`add_done_callback`) run on the thread that sends: they must return quickly.

        The future raises `NotDeliveredError`. Raises `TypeError` or `ValueError` for what cannot be sent,
        too large a message among it, and `ConfigurationError` while the app does not run here.
        """
        run = self._of_run()
        message = run.message(topic, value, key=key, headers=headers, partition=partition)
        if not run.take(message, waits=not _is_on_a_loop()):
            raise run.no_room(topic)
        return message.future

    async def asend(
        self,
        topic: str,
        value: Any,
        *,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message and wait until it is written, without holding the loop up.

        The arguments are those of `send`. For many at once: `asyncio.wrap_future(app.producer.send(…))` of
        each. Raises `NotDeliveredError`, and what `send` raises.
        """
        run = self._of_run()
        message = run.message(topic, value, key=key, headers=headers, partition=partition)
        # The thread that sends makes room, and a loop's event is for its own.
        while not run.take(message, waits=False):  # noqa: ASYNC110
            await asyncio.sleep(ROOM_CHECK_S)
        return await asyncio.wrap_future(message.future)

    def flush(self, timeout_s: float | None = None) -> int:
        """Wait until all that was sent by now is written or has failed; return how many are neither.

        What waits for their futures by `add_done_callback` has returned by then.

        - `timeout_s` (seconds, default `None`): how long. `None`: for as long as a message may take.

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
