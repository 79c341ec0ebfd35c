"""Dead letters to topics as outputs: a letter is committed in one transaction with its record's offset.

`TransactionLetters` stands where `recovery.letters.topics.TopicLetters` does otherwise. Its records have
their outcome at once: neither the letter nor the offset counts before their transaction does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.decision import HoldHead
from ehkafka.recovery.letters.answer import answer_safe

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.recovery.letters.letter import Letter
    from ehkafka.transactions.book import TransactionBook

    Complete = Callable[[Ticket, Answer], None]


class LetterOutput:
    """A dead letter on its way, with what the transactions need of an output."""

    __slots__ = ("headers", "is_dropped", "key", "letter", "place", "size", "topic", "value")

    partition = -1
    claim = None
    home = None

    def __init__(self, topic: str, letter: Letter, epoch: Epoch) -> None:
        self.topic = topic
        self.letter = letter
        self.place = epoch, letter.offset
        self.key, self.value = letter.key, letter.value
        self.headers: Any = list(letter.headers)
        self.size = len(letter.key or b"") + len(letter.value or b"")
        self.is_dropped = False

    @property
    def where(self) -> str:
        """Its record, for messages."""
        return f"{self.place[0].partition}@{self.place[1]}"


class TransactionLetters:
    """All letters to topics of a run. `post` from any thread."""

    def __init__(
        self, book: TransactionBook, *, emit: Callable[[Event], None], history: History | None
    ) -> None:
        self._book = book
        self._emit = emit
        self._history = history

    @property
    def problem(self) -> str:
        """Why letters wait, if any did."""
        return "their transaction is not committed"

    def sender(self, to: str, complete: Complete, *, in_history: bool = True) -> TransactionLetterSender:
        """Return where one handler posts its letters for a topic; `complete` is its hub's `answer`."""
        history = self._history if in_history else None
        return TransactionLetterSender(self._book, to, complete, self._emit, history)

    def start(self, _id_s: float) -> None:
        """Do nothing: the transactions have the producer."""

    def wake(self) -> None:
        """Do nothing: no letter waits for a time."""

    def owns(self, _thread: threading.Thread) -> bool:
        """Tell that no thread is theirs."""
        return False

    def stop(self, _timeout_s: float) -> int:
        """Do nothing, and return that no letter is left here."""
        return 0


class TransactionLetterSender:
    """One handler's way to one dead-letter topic."""

    def __init__(
        self,
        book: TransactionBook,
        to: str,
        complete: Complete,
        emit: Callable[[Event], None],
        history: History | None,
    ) -> None:
        self._book = book
        self._to = to
        self._complete = complete
        self._emit = emit
        self._history = history

    def post(self, ticket: Ticket, letter: Letter) -> None:
        """Take a letter, and give its record its outcome. Never blocks, never raises."""
        if ticket.attempt.epoch.ended:
            self._complete(ticket, HoldHead("its partition was taken away"))
            return
        # First: a commit that finds the record finished must find its letter.
        self._book.add_letter(LetterOutput(self._to, letter, ticket.attempt.epoch))
        answer_safe(ticket, letter, self._to, complete=self._complete, emit=self._emit, history=self._history)
