"""What the supervisor asks members on behalf of whoever wants to know: one of them, or all at the same time.

Any thread but the main one, which carries questions and answers; it is answered as if nobody did.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from ehkafka.http.noted import Noted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ehkafka.members.channel import Answer
    from ehkafka.members.member import Member
    from ehkafka.records import TopicPartition


# How long who asks all of them waits for fresh answers.
FRESH_S: Final = 1.0


class Questions:
    """Asks the members of one supervisor."""

    def __init__(self, members: Sequence[Member], now_s: Callable[[], float]) -> None:
        self._members = members
        self._now_s = now_s

    def ask(self, number: int, action: str, timeout_s: float, /, **arguments: Any) -> Any:
        """Ask one member for something, and return what it answers.

        Raises `TimeoutError` when it does not in time, `LookupError` when it cannot.
        """
        process = self._members[number - 1].process
        if process is None:
            raise LookupError(f"Member {number} does not run.")
        answer = process.channel.ask(action, **arguments)
        if not answer.wait(timeout_s):
            raise TimeoutError(f"Member {number} has not answered within {timeout_s:g} s.")
        if answer.error is not None:
            raise LookupError(f"Member {number}: {answer.error}.")
        return answer.value

    def ask_all(
        self, action: str, timeout_s: float, /, of: Callable[[int], Mapping[str, Any]]
    ) -> dict[int, Answer]:
        """Ask all that run, and return the answers that came in time, by number; `of` gives the arguments.

        However many members there are, and however many of them are stuck, it takes no longer than the time.
        """
        if threading.current_thread() is threading.main_thread():
            return {}
        ends_s = time.monotonic() + timeout_s
        asked = {
            member.number: process.channel.ask(action, **of(member.number))
            for member in self.responsive()
            if (process := member.process) is not None
        }
        return {number: answer for number, answer in asked.items() if answer.wait(ends_s - time.monotonic())}

    def responsive(self) -> list[Member]:
        """Return the members that run, but for those that have missed a question: nobody waits for them."""
        now_s = self._now_s()
        return [
            one for one in self._members if one.process is not None and one.silence_s(now_s) < 2 * FRESH_S
        ]

    def running(self) -> list[int]:
        """Return the numbers of the members that run."""
        return [member.number for member in self._members if member.process is not None]

    def member_with(self, partition: TopicPartition) -> int | None:
        """Return which member has a partition, as it answered last."""
        return next((one.number for one in self._members if one.has(partition)), None)


class Journals:
    """The members' journals: events, errors, rebalances and stacks, as each answered last.

    They stay in the members, and come as often as somebody wants to see them; one that has not changed is not
    sent again. Of a process that has ended its last one is kept beside its successor's, since it may say why.
    """

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
