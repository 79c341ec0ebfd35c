"""What happened lately: events, and errors by kind. A hook: filled on the telemetry thread."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ehkafka.events import ActionTaken, AttemptOverdue, StateReport
from ehkafka.events.event import Failure, kind_in
from ehkafka.records import TopicPartition
from ehkafka.run.steer.names import head_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event

EVENTS_MAX: Final = 200
# Kinds of errors that are remembered; past that the one seen longest ago goes.
KINDS_MAX: Final = 50
TEXT_CHARACTERS_MAX: Final = 2_000
STACK_CHARACTERS_MAX: Final = 8_000
STACK_EVERY_S: Final = 1.0
# Records of which the last stack is remembered: as many as there are cards, and more.
STACKS_MAX: Final = 100
# Warnings, so that every log shows them; nothing is wrong.
_ASKED_FOR = (ActionTaken, StateReport)


@dataclass(slots=True)
class _Errors:
    count: int
    last_at_s: float
    sentence: str
    stack: str
    stack_at_s: float


class Journal:
    """Written by one thread, read by any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._errors: dict[str, _Errors] = {}
        # By `TOPIC/PARTITION@OFFSET`, the one made longest ago first.
        self._stacks: dict[str, str] = {}
        # Called with each event as it is shown. Must not block.
        self.listeners: list[Callable[[dict[str, Any]], None]] = []

    def on_event(self, event: Event, /) -> None:
        """Take one event."""
        if event.level < logging.INFO:
            return
        now_s = event.at_s
        sentence = shortened(event.sentence(), TEXT_CHARACTERS_MAX)
        shown = {
            "at_s": now_s,
            "level": logging.getLevelName(event.level).lower(),
            "kind": type(event).__name__,
            "sentence": sentence,
        }
        with self._lock:
            self._events.append(shown)
            if event.level >= logging.WARNING and not isinstance(event, _ASKED_FOR):
                self._count(event, now_s, sentence)
        for listener in tuple(self.listeners):
            listener(shown)

    def events(self) -> list[dict[str, Any]]:
        """Return the last events, the newest first."""
        with self._lock:
            return list(reversed(self._events))

    def stacks(self) -> dict[str, str]:
        """Return the last stacks of records, by the name of each as a key's head; not all have one."""
        with self._lock:
            return dict(self._stacks)

    def errors(self) -> list[dict[str, Any]]:
        """Return the kinds of errors, the newest first."""
        with self._lock:
            found = [
                {
                    "kind": kind,
                    "count": one.count,
                    "last_at_s": one.last_at_s,
                    "sentence": one.sentence,
                    "stack": one.stack,
                }
                for kind, one in self._errors.items()
            ]
        return sorted(found, key=lambda one: -one["last_at_s"])

    def _count(self, event: Event, now_s: float, sentence: str) -> None:
        kind = type(event).__name__
        error = getattr(event, "error", None)
        if isinstance(error, str):
            kind = f"{kind}: {shortened(kind_in(error), 200)}"
        one = self._errors.pop(kind, None) or _Errors(0, now_s, sentence, "", 0.0)
        one.count += 1
        one.last_at_s, one.sentence = now_s, sentence
        # A flood of one kind has one stack a second: making it takes longer than all the rest.
        if now_s >= one.stack_at_s + STACK_EVERY_S:
            one.stack_at_s = now_s
            if stack := _stack_of(event):
                one.stack = stack
                self._note_stack(event, stack)
        # Last of all again: the first is the one seen longest ago.
        self._errors[kind] = one
        if len(self._errors) > KINDS_MAX:
            del self._errors[next(iter(self._errors))]

    def _note_stack(self, event: Event, stack: str) -> None:
        partition, offset = getattr(event, "partition", None), getattr(event, "offset", None)
        if isinstance(partition, TopicPartition) and isinstance(offset, int):
            name = head_name(partition, offset)
            self._stacks.pop(name, None)
            self._stacks[name] = stack
            if len(self._stacks) > STACKS_MAX:
                del self._stacks[next(iter(self._stacks))]


def _stack_of(event: Event) -> str:
    if isinstance(event, AttemptOverdue):
        return shortened(event.stack, STACK_CHARACTERS_MAX)
    if isinstance(event, Failure) and event.exception is not None:
        lines = traceback.format_exception(event.exception, limit=-20)
        return shortened("".join(lines), STACK_CHARACTERS_MAX)
    return ""


def shortened(text: str, most: int) -> str:
    """Return a text of so many characters at most."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
