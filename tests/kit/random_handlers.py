"""Handlers that do what a record's value says, and write down how each call began and ended."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from typing import Any, NamedTuple

import ehkafka
from tests.kit.random_plan import LATE_US, Place, Plan

ERRORS: dict[bytes, Any] = {
    b"fail": lambda: ValueError("asked for"),
    b"reject": lambda: ehkafka.RejectRecord("asked for"),
    b"skip": lambda: ehkafka.SkipRecord("asked for"),
    b"later": lambda: ehkafka.RetryLater(0.02),
}
ENDS = {b"fail": "failed", b"reject": "failed", b"skip": "skipped", b"later": "again"}


class Line(NamedTuple):
    """What happened: `begin`, or a call's end: `done`, `failed`, `skipped`, `again`, or a `void` answer."""

    at_ns: int
    word: str
    member: int
    place: Place
    # Of all records of one batch the same.
    call: int


class Handlers:
    """The handlers of one member. The order of the lines is that of what happened."""

    def __init__(self, plan: Plan, member: int, lines: list[Line]) -> None:
        self.plan, self.member, self.lines = plan, member, lines
        self._tries: Counter[Place] = Counter()
        self._calls = itertools.count()

    def function(self) -> Any:
        """Return what the app is given."""
        by_kind = {
            "class": type("Kept", (), {"process": lambda _self, record: self.handle(record)}),
            "async": self.handle_async,
            "batches": self.handle_batch,
            "async batches": self.handle_batch_async,
        }
        return by_kind.get(self.plan.kind, self.handle)

    def say(self, word: str, place: Place, call: int) -> None:
        """Write it down."""
        self.lines.append(Line(time.monotonic_ns(), word, self.member, place, call))

    def _begin(self, *records: Any) -> tuple[list[Place], int, float]:
        """Return the records' places, the call's number, and how long it takes (seconds)."""
        call, cost = next(self._calls), 0
        places = [Place(record.topic(), record.partition(), record.offset()) for record in records]
        for place, record in zip(places, records, strict=True):
            self.say("begin", place, call)
            self._tries[place] += 1
            its_cost = int(record.value().split()[1])
            cost += its_cost if its_cost < LATE_US or self._tries[place] == 1 else 0
        return places, call, min(cost, LATE_US) / 1e6

    def handle(self, record: Any) -> None:
        """Run on a thread."""
        [place], call, cost_s = self._begin(record)
        spend(cost_s)
        self._end(record, place, call)

    async def handle_async(self, record: Any) -> None:
        """Run in a task."""
        [place], call, cost_s = self._begin(record)
        try:
            await asyncio.sleep(cost_s)
        except asyncio.CancelledError:
            self.say("failed", place, call)  # its deadline has passed, or its assignment has ended
            raise
        self._end(record, place, call)

    def _asked(self, record: Any, place: Place) -> bytes:
        _, _, word, times = record.value().split()
        return b"ok" if self._tries[place] > int(times) else word

    def _end(self, record: Any, place: Place, call: int) -> None:
        word = self._asked(record, place)
        if word == b"ok":
            self.say("done", place, call)
        elif word in ERRORS:
            self.say(ENDS[word], place, call)
            raise error_of(word)
        elif word == b"expire":
            ehkafka.defer(record, deadline_s=0.05)
            self.say("failed", place, call)
        else:
            self._defer(record, word, place, call)

    def _defer(self, record: Any, word: bytes, place: Place, call: int) -> None:
        token = ehkafka.defer(record)

        def answer() -> None:
            self.say("done" if word == b"defer" else "failed", place, call)
            if word == b"defer_fail":
                token.fail(ValueError("asked for"))
            elif not token.finish():
                self.say("void", place, call)

        if place.offset % 3:
            threading.Timer(0.001 * (place.offset % 20), answer).start()
        else:
            answer()

    def handle_batch(self, batch: Any) -> None:
        """Run on a thread."""
        places, call, cost_s = self._begin(*batch)
        spend(cost_s)
        self._end_batch(batch, places, call)

    async def handle_batch_async(self, batch: Any) -> None:
        """Run in a task."""
        places, call, cost_s = self._begin(*batch)
        try:
            await asyncio.sleep(cost_s)
        except asyncio.CancelledError:
            for place in places:
                self.say("again", place, call)
            raise
        self._end_batch(batch, places, call)

    def _end_batch(self, batch: Any, places: list[Place], call: int) -> None:
        asked = [self._asked(record, place) for record, place in zip(batch, places, strict=True)]
        if b"raise" in asked:
            for place in places:
                self.say("failed" if len(places) == 1 else "again", place, call)
            raise ValueError("asked for")
        behind = set()
        for record, place, word in zip(batch, places, asked, strict=True):
            if self.plan.names[place] in behind:
                self._tries[place] -= 1  # passed again, behind the one that failed
                self.say("again", place, call)
                continue
            self.say(ENDS.get(word, "done"), place, call)
            if word == b"skip":
                batch.skip(record, "asked for")
            elif word != b"ok":
                behind.add(self.plan.names[place])
                batch.fail(record, error_of(word))


def error_of(word: bytes) -> Exception:
    """Return a new error."""
    error: Exception = ERRORS[word]()
    return error


def spend(seconds: float) -> None:
    """Compute for microseconds, sleep for milliseconds."""
    ends_s = time.perf_counter() + seconds
    if seconds >= 0.001:
        time.sleep(seconds)
    while time.perf_counter() < ends_s:
        pass
