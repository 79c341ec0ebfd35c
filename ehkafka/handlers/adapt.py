"""`adapt`: a handler written against `confluent_kafka.Message`, as an app calls handlers.

A `Record` has every reading method of a `Message`, so most handlers need no adapting. This is for those
that want such an object: they check its type, pickle it, or set its value. It is the handler's own: what is
set in it is seen by only that call. No state, no thread.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import is_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.records import Record


def adapt(handler: Callable[[Any], Any]) -> Callable[[Record], Any]:
    """Return a handler of records for one that is written against confluent-kafka's messages.

    ```python
    app.handler("orders")(ehkafka.adapt(handle_message))
    ```

    - `handler` (required): takes a `confluent_kafka.Message`: a plain or async function, or an object with
      `__call__` of either kind. What it returns and raises is passed on.

    Raises `ConfigurationError` for what cannot be called.
    """
    if not callable(handler) or inspect.isclass(handler):
        raise ConfigurationError(
            f"adapt: {handler!r} is not a function; give the function that takes a confluent_kafka.Message."
        )

    def adapted(record: Record) -> Any:
        return handler(record.message)

    async def adapted_async(record: Record) -> Any:
        return await handler(record.message)

    result = adapted_async if is_async(handler) else adapted
    names = [name for name in functools.WRAPPER_ASSIGNMENTS if name != "__annotations__"]
    functools.update_wrapper(result, handler, assigned=names, updated=())
    del vars(result)["__wrapped__"]  # its signature is not the handler's
    return result
