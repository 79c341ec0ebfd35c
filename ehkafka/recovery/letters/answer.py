"""The answer for a record whose dead letter is safe: the history first, then the event, then the ticket.

Called by whoever wrote the letter, on its thread. The order matters: once the ticket is answered a commit
may pass the record, and by then the history must know why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.events import RecordDeadLettered
from ehkafka.lanes.order import describe_key
from ehkafka.lanes.user_keys import users_key
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.events import Event
    from ehkafka.events.history import History
    from ehkafka.lanes.decision import Answer, Ticket
    from ehkafka.recovery.letters.letter import Letter


def answer_safe(
    ticket: Ticket,
    letter: Letter,
    where: str,
    *,
    complete: Callable[[Ticket, Answer], None],
    emit: Callable[[Event], None],
    history: History | None,
) -> None:
    """Tell that a letter is safe, and give its record the outcome *dead-lettered*."""
    attempt, origin, offset = ticket.attempt, letter.origin, letter.offset
    if history is not None:
        history.dead_lettered(origin, offset)
        outcome = Outcome.DEAD_LETTERED.value
        key = users_key(attempt.key)
        history.finished(origin, attempt.epoch.number, offset, key, attempt.number, outcome)
    emit(RecordDeadLettered(origin, offset, describe_key(attempt.key), where))
    complete(ticket, Outcome.DEAD_LETTERED)
