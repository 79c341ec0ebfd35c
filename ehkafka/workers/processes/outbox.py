"""What the running call of a worker process sends: encoded here, kept until the call has ended.

In the child. A record's outputs travel with its end, so that a child that dies in mid-call has sent nothing;
the parent sends them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ehkafka.outputs.kinds import kind_of
from ehkafka.outputs.send import Send
from ehkafka.records.deferral import engines_own

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.outputs.making import Made, OutputMaker
    from ehkafka.workers.processes.message import CopiedMessage


class Outbox:
    """Takes what a call returns and what `record.send` is given; one call at a time.

    The child's main thread begins and ends calls; a thread of the user's may send, too.
    """

    def __init__(self, maker: OutputMaker, report_kind: Callable[[str, str], None]) -> None:
        """`report_kind` is given each topic with each kind of values that calls send there, once."""
        self._maker = maker
        self._report_kind = report_kind
        # Added to by any thread of the user's; reported twice would do no harm.
        self._noted: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        # Both under the lock. Whose call runs; what it has sent so far, in that order.
        self._message: CopiedMessage | None = None
        self._made: list[Made] = []

    def begin(self, message: CopiedMessage) -> None:
        """Note that the call for a record begins."""
        with self._lock:
            self._message = message

    def take(self, record: Any, result: object) -> None:
        """Keep what a call returns. Raises what fails the attempt: see `OutputMaker`."""
        message = engines_own(record)
        if message is not self._message:
            raise self._maker.no_record()
        made = self._maker.made(message, result, self._note)
        with self._lock:
            self._made += made

    def send(self, message: Any, value: Any, **given: Any) -> None:
        """Keep what a record sends within its call. Raises `RuntimeError` where that is over."""
        message = engines_own(message)
        made = self._maker.made(message, Send(value, **given), self._note)
        with self._lock:
            if self._message is not message:
                where = f"{message.topic()}[{message.partition()}]@{message.offset()}"
                raise RuntimeError(
                    f"{where} has its outcome, so nothing can be sent for it any more: call send() before "
                    "the handler returns"
                )
            self._made += made

    def _note(self, topic: str, given: object) -> None:
        kind = kind_of(given)
        if kind is not None and (topic, kind) not in self._noted:
            self._noted.add((topic, kind))
            self._report_kind(topic, kind)

    def end(self) -> list[Made]:
        """Return what the call has sent, which has returned or raised: from here on it sends nothing."""
        with self._lock:
            made, self._made, self._message = self._made, [], None
        return made
