"""The members' journals in their supervisor: events, errors, rebalances and stacks, as each answered last.

They stay in the members, and come as often as somebody wants to see them; one that has not changed is not
sent again. Of a process that has ended its last one is kept beside its successor's, since it may say why.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ehkafka.http.noted import Noted
from ehkafka.members.questions import FRESH_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.members.questions import Questions


class Journals:
    """Any thread but the main one."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._lock = threading.Lock()
        # Under the lock, by member: of its process, the one before first.
        self._known: dict[int, tuple[Mapping[str, Any], ...]] = {}

    def read(self) -> list[Noted]:
        """Return them all. A member that does not answer in time has its last one, and is marked so."""
        with self._lock:
            answers = self._questions.ask_all("journal", FRESH_S, of=self._seen)
            for number, answer in answers.items():
                # One that starts knows no journal yet.
                if answer.error is None and answer.value is not None:
                    self._take(number, answer.value)
            running = self._questions.running()
            numbers = sorted({*running, *self._known})
            return [
                Noted(number, self._known.get(number, ()), number in running and number not in answers)
                for number in numbers
            ]

    def _seen(self, number: int) -> dict[str, Any]:
        known = self._known.get(number)
        return {"seen": None if known is None else [known[-1]["pid"], known[-1]["version"]]}

    def _take(self, number: int, found: Mapping[str, Any]) -> None:
        before = [one for one in self._known.get(number, ()) if one["pid"] != found["pid"]]
        self._known[number] = (*before[-1:], found)
