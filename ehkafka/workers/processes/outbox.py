"""The outputs of a worker process's running call: encoded here, kept until the call has ended.

In the child. A record's outputs travel with its end, so that a child that dies in mid-call has sent nothing,
nor does a call that raises; the parent sends them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ehkafka.outputs.encoding import CALL_BYTES_MAX, sends_too_much
from ehkafka.outputs.send import Send
from ehkafka.records.deferral import engines_own

if TYPE_CHECKING:
    from ehkafka.outputs.encoding import Made, OutputMaker
    from ehkafka.workers.processes.message import CopiedMessage


class Outbox:
    """Collects outputs that a call returns or gives to `record.send`; one call at a time.

    The child's main thread begins and ends calls; a thread of the user's may send, too.
    """

    def __init__(self, maker: OutputMaker) -> None:
        self._maker = maker
        self._lock = threading.Lock()
        # All under the lock. Whose call runs; what it has sent so far, in that order, and its bytes.
        self._message: CopiedMessage | None = None
        self._made: list[Made] = []
        self._size = 0

    def begin(self, message: CopiedMessage) -> None:
        """Note that the call for a record begins."""
        with self._lock:
            self._message = message

    def take(self, record: object, result: object) -> None:
        """Keep what a call returns. Raises what fails the attempt: see `OutputMaker`."""
        message = engines_own(record)
        if message is not self._message:
            raise self._maker.no_record()
        made = self._maker.made(message, result)
        with self._lock:
            self._add(made, message)

    def send(self, message: Any, value: Any, **given: Any) -> None:
        """Keep what a record sends within its call. Raises `RuntimeError` where that is over."""
        message = engines_own(message)
        made = self._maker.made(message, Send(value, **given))
        with self._lock:
            if self._message is not message:
                where = _where(message)
                raise RuntimeError(
                    f"{where} is finished, so it can send no more outputs: call send() before the handler "
                    f"returns"
                )
            self._add(made, message)

    def _add(self, made: list[Made], message: object) -> None:
        """Keep some of it. Caller has the lock."""
        self._size += sum([one[5] for one in made])
        if self._size > CALL_BYTES_MAX:
            raise sends_too_much(_where(message), self._size)
        self._made += made

    def end(self, *, has_failed: bool) -> list[Made]:
        """Return what the call has sent, nothing if it has failed; from here on it sends nothing."""
        with self._lock:
            made, self._made, self._message, self._size = self._made, [], None, 0
        return [] if has_failed else made


def _where(message: Any) -> str:
    return f"{message.topic()}[{message.partition()}]@{message.offset()}"
