"""What becomes of heads that failed, and of heads whose end somebody else will tell.

Pure; time comes in as an argument; the caller has the lock. An *awaited* lane counts as running, though
no worker holds it: its head was started and is in flight, so a cut leaves it, a drain waits for it, and
its records stay in the backlog.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, Ticket
from ehkafka.lanes.order import Apart, KeyFailure
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.decision import Answer, Decision
    from ehkafka.lanes.dispatcher import Dispatcher
    from ehkafka.lanes.lane import Lane
    from ehkafka.records import Message

# Keys that are remembered to be held or diverted, in one assignment. Past it a dead-lettered record stays
# on hold in its lane, so that its key cannot go on as if nothing had happened.
AFTER_LETTER_MAX = 10_000
FULL = HoldHead(f"{AFTER_LETTER_MAX} dead-lettered keys wait already")
# Keys of one record each: no later one could follow it, so nothing is remembered of them.
_ONCE = (Apart, KeyFailure)


class Decisions:
    """Carries out decisions for one dispatcher, and takes the answers to tickets."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        # Heads in flight without a worker. Bounded by the backlog.
        self.awaited: dict[Lane, Ticket] = {}
        # Tickets whose `begin` is to be called, once the lock is free, by whoever pops them.
        self.outbox: deque[Ticket] = deque()
        # Heads of lanes on hold whose dead letter is on its way: see `divert_key`.
        self.diverting: dict[Lane, Ticket] = {}
        # Which records of such a lane are to go, the head first, and why, where somebody sends them by hand.
        # By identity, not by number: a cut may take some of them, and others come behind.
        self._sent_by_hand: dict[Lane, tuple[deque[Message], str]] = {}
        # Makes the decision for a head whose key is to follow an earlier one to the dead letters. Set by
        # the runtime where a policy can divert; runs under the lock, so it only builds a value.
        self.divert: Callable[..., Decision] | None = None

    def carry_out(self, lane: Lane, now_s: float) -> None:
        """Do what the holder of a lane decided for its head. The lane is handed in."""
        decision, lane.decision = lane.decision, None
        assert decision is not None
        self.decide(lane, decision, now_s)

    def decide(self, lane: Lane, decision: Decision, now_s: float) -> None:
        """Do with the head of a lane that nobody holds what a decision says."""
        if isinstance(decision, AwaitHead):
            self._await(lane, decision)
            return
        lane.attempts += 1
        lane.last_error = decision.reason
        if isinstance(decision, RetryHead):
            lane.retries_asked += decision.is_asked
            self._dispatcher.holds.hold(lane, decision, due_s=now_s + decision.after_s)
        elif isinstance(decision, HoldHead):
            self._dispatcher.holds.hold(lane, decision)
        else:
            self.give(lane, Outcome.SKIPPED)

    def complete(self, ticket: Ticket, answer: Answer, now_s: float) -> None:
        """Take the answer to a ticket; a second answer to the same one counts for nothing."""
        lane = ticket.lane
        if self.diverting.get(lane) is ticket:
            self._complete_held(lane, answer)
            return
        if self.awaited.get(lane) is not ticket:
            return
        del self.awaited[lane]
        lane.running = False
        if lane.assignment.ended:
            lane.finished_records = int(isinstance(answer, Outcome))
            self._dispatcher.settle_stale(lane)
        elif isinstance(answer, Outcome):
            if answer is Outcome.DEAD_LETTERED and not self._set_after_letter(lane, ticket.decision):
                self._dispatcher.holds.hold(lane, FULL)
            else:
                self.give(lane, answer)
        else:
            self.decide(lane, answer, now_s)

    def ticket_of(self, lane: Lane) -> Ticket | None:
        """Return the ticket that waits for an answer about a lane's head, None where none does."""
        return self.awaited.get(lane) or self.diverting.get(lane)

    def give(self, lane: Lane, outcome: Outcome) -> None:
        """Give the head of a lane that nobody holds an outcome and go on with the next."""
        self.end_head(lane, outcome)
        self._dispatcher.make_ready(lane)

    def end_head(self, lane: Lane, outcome: Outcome) -> None:
        """Give the head of a lane that nobody holds an outcome; its record counts in the backlog."""
        assignment, size = lane.assignment, lane.head_bytes
        assert lane.head is not None
        lane.advance()
        lane.finished_records = lane.finished_bytes = 0
        for counted in (assignment, self._dispatcher):
            if outcome is Outcome.FINISHED:
                counted.finished_records += 1
            elif outcome is Outcome.SKIPPED:
                counted.skipped_records += 1
            else:
                counted.dead_lettered_records += 1
            counted.backlog_records -= 1
            counted.backlog_bytes -= size

    def follow_letter(self, lane: Lane) -> None:
        """Hold or divert the head of a lane whose key had a dead letter. Nobody holds the lane."""
        if lane.assignment.after_letter[lane.key] == "hold_key" or self.divert is None:
            self._dispatcher.holds.hold(lane, HoldHead("an earlier record of its key was dead-lettered"))
            return
        decision = self.divert(lane)
        if isinstance(decision, AwaitHead):
            self._await(lane, decision)
        else:
            assert isinstance(decision, HoldHead)
            self._dispatcher.holds.hold(lane, decision)

    def divert_key(self, lane: Lane, reason: str) -> None:
        """Send a held lane's records, and those to come, to the dead letters, one after another.

        The lane stays on hold meanwhile: back in the backlog its records would stop the intake of all.
        """
        after_letter = lane.assignment.after_letter
        if (len(after_letter) < AFTER_LETTER_MAX or lane.key in after_letter) and not isinstance(
            lane.key, _ONCE
        ):
            after_letter[lane.key] = "divert_key"
        self._divert_head(lane, reason)

    def send_by_hand(self, lane: Lane, reason: str, records: int) -> None:
        """Send the first records of a lane on hold to the dead letters, one after another.

        The lane stays on hold meanwhile. Then the key's next records do what the policy says for them.
        """
        self._send(lane, deque(lane.messages()[:records]), reason)

    def _send(self, lane: Lane, messages: deque[Message], reason: str) -> None:
        self._sent_by_hand[lane] = messages, reason
        self._divert_head(lane, reason)

    def forget_letter(self, lane: Lane) -> None:
        """Let the answer to a held lane's letter count for nothing."""
        self.diverting.pop(lane, None)
        self._sent_by_hand.pop(lane, None)

    def _divert_head(self, lane: Lane, *reason: str) -> None:
        assert self.divert is not None
        decision = self.divert(lane, *reason)
        assert isinstance(decision, AwaitHead)
        self._dispatcher.holds.keep(lane, HoldHead(decision.reason))  # its retry does not come any more
        self.diverting[lane] = ticket = _ticket(lane, decision)
        self.outbox.append(ticket)

    def _complete_held(self, lane: Lane, answer: Answer) -> None:
        """Go on with a held lane whose head's letter is safe; a letter that nobody takes leaves it held."""
        holds = self._dispatcher.holds
        ticket = self.diverting.pop(lane)
        by_hand = self._sent_by_hand.pop(lane, None)
        if answer is Outcome.DEAD_LETTERED:
            if by_hand is not None:
                self._go_on_by_hand(lane, ticket.decision, *by_hand)
                return
            holds.give_up_head(lane)
            if lane not in holds.held:
                return
            if self._is_above_drain(lane):
                holds.keep(lane, HoldHead("its key is diverted to the dead letters"))
            else:
                self._divert_head(lane)
        elif isinstance(answer, HoldHead):
            holds.keep(lane, answer)

    def _go_on_by_hand(self, lane: Lane, decision: AwaitHead, messages: deque[Message], reason: str) -> None:
        """Send the next record that was to go, or after the last one let the key go on as its policy says."""
        holds = self._dispatcher.holds
        left = lane.messages()[1:]
        # The one that has gone, and what was returned with its partition meanwhile.
        while messages and not any(message is messages[0] for message in left):
            messages.popleft()
        if not messages and not self._set_after_letter(lane, decision):
            holds.keep(lane, FULL)
            return
        holds.give_up_head(lane)
        if lane not in holds.held:
            return
        if messages and not self._is_above_drain(lane):
            self._send(lane, messages, reason)
        else:
            holds.release(lane)

    @staticmethod
    def _is_above_drain(lane: Lane) -> bool:
        return lane.assignment.halted and not lane.assignment.may_start(lane.head)

    def _set_after_letter(self, lane: Lane, decision: AwaitHead) -> bool:
        """Remember what the key's next records do; False where there is no room for one key more."""
        after_letter = lane.assignment.after_letter
        if decision.after == "continue" or isinstance(lane.key, _ONCE):
            return True
        if len(after_letter) >= AFTER_LETTER_MAX and lane.key not in after_letter:
            return False
        after_letter[lane.key] = decision.after
        return True

    def _await(self, lane: Lane, decision: AwaitHead) -> None:
        lane.running = True
        self.awaited[lane] = ticket = _ticket(lane, decision)
        self.outbox.append(ticket)


def _ticket(lane: Lane, decision: AwaitHead) -> Ticket:
    return Ticket(lane, decision, lane.assignment, lane.attempts + 1)
