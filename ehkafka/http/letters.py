"""Dead letters for the page: the newest ones of a topic, and their redrive.

Read on request, by a client of its own that joins no group; the app's consumer is not touched. One
question at a time: each reads a topic.
"""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.checks.target import Target
from ehkafka.checks.topic_reader import LastRecords, TopicReader
from ehkafka.errors import ActionRefusedError
from ehkafka.recovery.letters.letter import letter_origin
from ehkafka.redrive.redrive import Redrive
from ehkafka.run.steer.action import refused
from ehkafka.run.steer.keys import value_text
from ehkafka.run.steer.names import key_text
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.http.served import Served
    from ehkafka.records import Record
    from ehkafka.redrive.order import RedriveCount

LISTED_MAX: Final = 200
# For each question to the broker, and for the whole list.
ANSWER_S: Final = 5.0
LIST_S: Final = 10.0
BUSY_S: Final = 15.0


class LettersPage:
    """Any thread, but never an event loop's."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._one_at_a_time = threading.Lock()

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        """Return the newest letters of a topic of ours. Raises `EhkafkaError`."""
        self._must_be_ours(topic)
        limit = max(1, min(limit, LISTED_MAX))
        target = Target.of_app(self._served, topics=(topic,))
        until_s = time.monotonic() + LIST_S
        reader = TopicReader(target, topic, begin=LastRecords(limit), timeout_s=ANSWER_S, to_end=True)
        with self._turn(), reader:
            records = _until(until_s, reader.batches())
            entries = ((one.timestamp()[1], one.partition(), one.offset(), one) for one in records)
            # One more tells that there are more.
            found = heapq.nlargest(limit + 1, entries)
        return {"letters": [_shown(one[-1]) for one in found[:limit]], "more": len(found) > limit}

    def redrive(self, topic: str, *, preview: bool) -> dict[str, Any]:
        """Bring the letters back to where they came from, or say what that would do."""
        self._must_be_ours(topic)
        redrive = Redrive(
            target=Target.of_app(self._served, topics=(topic,)), topic=topic, timeout_s=ANSWER_S
        )
        with self._turn():
            planned = redrive.plan()
            done = planned if preview or not planned.seen else redrive.run(planned=planned)
        return {"text": _sentence(done, topic, preview=preview), "records": sum(done.to.values())}

    def _must_be_ours(self, topic: str) -> None:
        if topic not in self._served.letter_topics:
            raise refused("unknown", f"No handler of this app writes dead letters to {topic[:80]!r}.")

    def _turn(self) -> BoundedLock:
        return BoundedLock(self._one_at_a_time)


class BoundedLock:
    """A lock that is not waited for without an end."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=BUSY_S):
            raise ActionRefusedError("busy", "Another request is reading the dead letters: try again.")

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def _until(time_s: float, batches: Iterable[Iterable[Record]]) -> Iterator[Record]:
    for batch in batches:
        yield from batch
        if time.monotonic() > time_s:
            return


def _sentence(count: RedriveCount, topic: str, *, preview: bool) -> str:
    number = sum(count.to.values())
    if not count.to:
        return f"{topic} has no dead letter left to redrive."
    homes = ", ".join(sorted({home.topic for home in count.to}))
    goes = "goes" if number == 1 else "go"
    return f"{counted(number, 'letter')} of {topic} {goes if preview else 'went'} back to {homes}."


def _shown(record: Record) -> dict[str, Any]:
    origin = letter_origin(record)
    where = (
        None if origin is None else f"{origin.partition.topic}/{origin.partition.partition}@{origin.offset}"
    )
    error = "" if origin is None else origin.error_text or origin.error_type
    return {
        "partition": record.partition(),
        "offset": record.offset(),
        "key": key_text(record.key()),
        "value": value_text(record.value()),
        "headers": {name: value_text(value) for name, value in record.headers()[:50]},
        "at_s": record.timestamp()[1] / 1000,
        "error": error[:400],
        "origin": where,
    }
