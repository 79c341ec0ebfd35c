"""Waiting records, which failed, were deferred or need a dead letter; and paused keys.

Pure; time comes in as an argument; the caller has the lock. No code of the user's runs here: decisions are
values that the failure policy made on the worker's thread.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Final

from ehkafka.lanes.decision import Attempts, AwaitHead, HoldHead, RetryHead, Ticket
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import EPOCH, KEY, MESSAGE, SIZE
from ehkafka.lanes.order import Apart, KeyFailure
from ehkafka.records import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ehkafka.lanes.decision import AfterDeadLetter, Answer, Decision
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inbox import Entry, Inbox, Owner
    from ehkafka.lanes.routing import Router

    # A record that failed, what is decided about it, and the later ones of its key that its consumer has.
    Failure = tuple[Entry, Decision, Sequence[Entry]]

# Keys whose next records wait, or follow a dead letter, in one assignment. Above this number a dead-lettered
# record stays on hold, so that its key cannot continue as if nothing had happened.
AFTER_LETTER_MAX: Final = 10_000
FULL: Final = HoldHead(f"{AFTER_LETTER_MAX} dead-lettered keys wait already")
PAUSED: Final = HoldHead("the key is paused")
BEHIND_LETTER: Final = HoldHead("an earlier record of its key was dead-lettered")
COUNTS: Final = {
    Outcome.FINISHED: "finished_records",
    Outcome.SKIPPED: "skipped_records",
    Outcome.DEAD_LETTERED: "dead_lettered_records",
}
# Keys of one record each: no later one can follow it, so nothing is remembered of them.
_ONCE: Final = (Apart, KeyFailure)


class WaitingKeys:
    """The waiting keys of one handler."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.held = router.held
        # Tickets whose `begin` is to be called once the lock is free.
        self.outbox: deque[Ticket] = deque()
        # Makes the decision that sends a record to the dead letters because of an earlier one, or by hand:
        # called with the record's next attempt and perhaps a reason. Only builds a value. None where no
        # policy of the handler sends any.
        self.divert: Callable[..., Decision] | None = None
        # (due, tie breaker, waiting key, its decision); obsolete once the key has another decision.
        self._timers: list[tuple[float, int, Held, Decision]] = []
        self._serial = itertools.count()

    # -- failures --------------------------------------------------------------------------------------

    def fail(self, inbox: Inbox, failures: Sequence[Failure], now_s: float) -> None:
        """Take failed records over from a consumer that waits for it, each with all later ones of its key.

        Of each key one record at most has failed. The consumer may have later ones of it, too, which it has
        not started, or which are to be handled again.
        """
        router = self.router
        router.unread.fail(inbox, failures[0][0])
        failures = [
            (router.unread.keyed(entry), decision, router.unread.with_keys(later))
            for entry, decision, later in failures
        ]
        router.note(inbox)
        inbox.give_up([one for entry, _, later in failures for one in (entry, *later)])
        live = [
            entry
            for entry, decision, later in failures
            if not entry[EPOCH].ended or later or isinstance(decision, AwaitHead)
        ]
        pulled = router.pull_several(inbox, live)
        for entry, decision, later in failures:
            behind = router.without_ended(later)
            behind += pulled.get(router.name_of(entry), ())
            if entry[EPOCH].ended:
                self._fail_too_late(entry, decision, behind)
            else:
                held = self._hold(entry, (entry, *behind), parked=not isinstance(decision, AwaitHead))
                held.window = 1 + len(later)
                self.decide(held, decision, now_s)
        router.touched.add(inbox)

    def _fail_too_late(self, entry: Entry, decision: Decision, later: Sequence[Entry]) -> None:
        """Forget the failure of an ended epoch; a deferred record keeps its key until its answer."""
        if not self.router.keeps_key(entry):
            self.router.freed.remove(id(entry[MESSAGE]))
            decision = HoldHead(decision.reason)  # whatever it is, no key waits for it
        if isinstance(decision, AwaitHead):
            held = self._hold(entry, later, parked=False)
            held.q.appendleft(entry)  # counted when its epoch ended
            held.counted += 1
            self._ask(held, decision)
            return
        self.router.attempts.pop(id(entry[MESSAGE]), None)
        if later:  # of other partitions: they stay in front of what waits of their key
            self._continue(self._hold(entry, later))

    def _hold(self, entry: Entry, first: Sequence[Entry], *, parked: bool = True) -> Held:
        """Make the key of a record wait, with these records in front of all that waits of it."""
        router, epoch, key = self.router, entry[EPOCH], entry[KEY]
        owner = router.owner_of(epoch, key)
        if owner is not None and isinstance(owner[0], Held):  # in slow start, or paused meanwhile
            held = owner[0]
            router.slow.take(held)
            self.held[held] = None
            held.set_parked(parked=parked)
        else:
            held = self._gather(key, epoch, parked=parked)
            held.behind = None  # the record that fails
        held.put_first(first)
        epoch.owners[key] = (held, held.sent)
        return held

    def _gather(self, key: Hashable, epoch: Epoch, *, parked: bool = True) -> Held:
        """Make a key wait, with all that waits of it elsewhere, behind what runs of it."""
        owner = self.router.owner_of(epoch, key)
        held = Held(key, epoch.owners, self.router.make_queue)
        held.is_parked = parked
        self.held[held] = None
        if owner is not None:
            pulled, held.behind = self.router.pull(owner, (id(epoch.owners), key))
            held.put_first(pulled)
        epoch.owners[key] = (held, held.sent)
        return held

    def keep(self, entry: Entry) -> Held:
        """Hold a record that has failed and may not start any more, until its epoch ends."""
        held = self._hold(entry, (entry,))
        self._wait(held, HoldHead(self.router.attempts[id(entry[MESSAGE])].reason))
        return held

    def decide(self, held: Held, decision: Decision, now_s: float) -> None:
        """Do with the first record of a waiting key what a decision demands."""
        if isinstance(decision, AwaitHead):
            held.set_parked(parked=False)
            self._ask(held, decision)
            return
        entry = held.q[0]
        attempts = self.router.attempts.setdefault(id(entry[MESSAGE]), Attempts())
        attempts.failed += 1
        attempts.last_error = decision.reason
        if isinstance(decision, RetryHead):
            attempts.asked += decision.is_asked
            self._wait(held, decision, now_s + decision.after_s)
        elif isinstance(decision, HoldHead):
            self._wait(held, decision)
        else:
            self._end_first(held, Outcome.SKIPPED)
            self._continue(held)

    def _wait(self, held: Held, decision: Decision, due_s: float | None = None) -> None:
        held.set_parked(parked=True)  # a drain does not wait for it
        held.decision, held.due_s = decision, due_s
        if due_s is not None:
            heapq.heappush(self._timers, (due_s, next(self._serial), held, decision))
            if len(self._timers) > 2 * len(self.held) + 100:
                self._timers = [timer for timer in self._timers if timer[2].decision is timer[3]]
                heapq.heapify(self._timers)

    # -- time ------------------------------------------------------------------------------------------

    @property
    def earliest_s(self) -> float | None:
        """When the next retry is due; its key may no longer wait. Needs no lock."""
        try:
            return self._timers[0][0]
        except IndexError:
            return None

    def next_due_s(self) -> float | None:
        """Return when the next retry is due; None when none is."""
        timers = self._timers
        while timers and (timers[0][2].decision is not timers[0][3] or timers[0][2] not in self.held):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def retry_due(self, now_s: float) -> int:
        """Let the keys go whose time has come; return how many."""
        released = 0
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            held = heapq.heappop(self._timers)[2]
            self._continue(held)
            released += 1
        return released

    # -- answers ---------------------------------------------------------------------------------------

    def _ask(self, held: Held, decision: AwaitHead) -> None:
        entry = held.q[0]
        held.decision, held.due_s = HoldHead(decision.reason), None
        held.ticket = ticket = Ticket(held, decision, self.router.attempt_of(entry))
        self.outbox.append(ticket)

    def answer(self, ticket: Ticket, answer: Answer, now_s: float) -> None:
        """Take the answer to a ticket; a second answer to the same one counts for nothing."""
        held = ticket.held
        if held.ticket is not ticket or held not in self.held:
            return
        if ticket.attempt.epoch.ended:
            if isinstance(answer, Outcome):
                self.router.ignore(ticket.attempt.epoch)
            self.forget_call(held)
            return
        held.ticket = None
        if isinstance(answer, Outcome):
            self._answered(held, ticket.decision, answer)
        elif held.is_parked and not isinstance(answer, AwaitHead):
            self._wait(held, answer if isinstance(answer, HoldHead) else HoldHead(answer.reason))
            held.by_hand = []
        else:
            self.decide(held, answer, now_s)

    def _answered(self, held: Held, decision: AwaitHead, outcome: Outcome) -> None:
        is_lettered = outcome is Outcome.DEAD_LETTERED
        if is_lettered and not held.is_by_hand(1) and not self._follow(held, decision.after):
            self._wait(held, FULL)
            return
        self._end_first(held, outcome)
        self._continue(held)

    # -- dead letters ----------------------------------------------------------------------------------

    def _follow(self, held: Held, after: AfterDeadLetter) -> bool:
        """Remember what the key's next records do; False where there is no room for one key more."""
        if held.after == "continue" and after != "continue" and not isinstance(held.key, _ONCE):
            if len(self.held) > AFTER_LETTER_MAX and self._following(held.owners) >= AFTER_LETTER_MAX:
                return False
            held.after = after
        return True

    def _following(self, owners: dict[Hashable, Owner]) -> int:
        """Return how many keys of an assignment follow a dead letter."""
        return sum(held.owners is owners and held.after != "continue" for held in self.held)

    def hold_key(self, entry: Entry, decision: HoldHead) -> None:
        """Start nothing more of a record's key, whatever became of that record. What runs ends first."""
        epoch, key = entry[EPOCH], self.router.unread.keyed(entry)[KEY]
        if epoch.ended or isinstance(key, _ONCE):
            return
        held = self._waiting_key(key, epoch)
        self._follow(held, "hold_key")
        if held.decision is None:
            self._wait(held, decision)

    def _waiting_key(self, key: Hashable, epoch: Epoch) -> Held:
        """Return a key that waits, or is to wait from now on, behind what runs of it."""
        if (held := self.find(key, epoch)) is not None:
            return held
        self.router.slow.end_key(epoch.owners, key)
        return self._gather(key, epoch)

    def divert_key(self, held: Held, reason: str) -> None:
        """Send a waiting key's records, and those to come, to the dead letters, one after another.

        They stay waiting meanwhile: in the backlog they would stop the intake of all keys.
        """
        self._follow(held, "divert_key")
        self._send_first(held, reason)

    def send_by_hand(self, held: Held, reason: str, records: int) -> None:
        """Send the first records of a waiting key to the dead letters, one after another.

        Then the key's next records do what the policy demands.
        """
        held.by_hand, held.by_hand_reason = list(held.q)[:records], reason
        self._send_first(held, reason)

    def _send_first(self, held: Held, *reason: str) -> None:
        assert self.divert is not None
        decision = self.divert(self.router.attempt_of(held.q[0]), *reason)
        if isinstance(decision, AwaitHead):
            self._ask(held, decision)
        else:
            assert isinstance(decision, HoldHead)
            self._wait(held, decision)

    # -- going on --------------------------------------------------------------------------------------

    def arrived(self, held: Held) -> None:
        """Send what was routed to a waiting key on if the key follows a dead letter."""
        if held.ticket is None and held.after == "divert_key" and held.q and held.decision is BEHIND_LETTER:
            self._continue(held)

    def _end_first(self, held: Held, outcome: Outcome) -> None:
        """Give the first record of a waiting key a result."""
        entry = held.take_first()
        entry[EPOCH].note_finished((entry,))
        self.router.attempts.pop(id(entry[MESSAGE]), None)
        entry[EPOCH].tally.end(1, entry[SIZE], COUNTS[outcome])

    def _continue(self, held: Held) -> None:
        """Continue with a waiting key whose first record has ended, or whose time has come."""
        held.due_s = None
        first = held.q[0] if held.q else None
        is_open = first is not None and first[EPOCH].may_start(first)
        if is_open and held.is_by_hand(0):
            self._send_first(held, held.by_hand_reason)
        elif held.after != "continue":
            self._wait(held, BEHIND_LETTER)
            if held.after == "divert_key" and is_open and self.divert is not None:
                self._send_first(held)
        elif held.is_paused:
            self._wait(held, PAUSED)
        else:
            self._let_go(held)

    def _let_go(self, held: Held) -> None:
        """Route what waits of a key, behind what still runs of it; first those that may fail again."""
        router = self.router
        known = router.attempts.get(id(held.q[0][MESSAGE])) if held.q else None
        if known is not None and not held.q[0][EPOCH].may_start(held.q[0]):
            # It failed, and no later record of its key may pass it before its epoch has ended.
            self._wait(held, HoldHead(known.reason))
            return
        was_paused = held.decision is PAUSED
        self._forget(held)
        if was_paused:
            held.set_parked(parked=False)
            router.place_all(list(held.q))
        elif held.q:
            router.slow.begin(held)

    def _forget(self, held: Held) -> None:
        del self.held[held]
        held.ticket = held.decision = None
        held.by_hand = []
        held.disown()

    def take_away(self, held: Held, entries: Sequence[Entry]) -> None:
        """Leave records of a waiting key for their next owner: their epochs have ended. The others stay.

        A key waits on where its first record stays, where it is paused, and where it follows a dead letter.
        """
        router = self.router
        gone = set(map(id, entries))
        held.set_parked(parked=False)
        first = held.q[0] if held.q else None
        stay = [entry for entry in held.q if id(entry) not in gone]
        held.q = router.make_queue()
        held.q.extend(stay)
        held.counted = len(stay)
        for entry in entries:
            router.give_back(entry)
        if (stay and stay[0] is first) or held.is_paused or held.after != "continue":
            held.set_parked(parked=held.ticket is None)
        else:
            self._let_go(held)

    def forget_why(self, held: Held) -> None:
        """Forget a pause and a dead letter of a key whose partition has gone."""
        held.after = "continue"
        held.is_paused = False

    def forget_call(self, held: Held) -> None:
        """Let a key continue that waits for the answer to a record of an ended epoch. Counts for nothing."""
        held.ticket = None
        self.router.attempts.pop(id(held.q.popleft()[MESSAGE]), None)
        held.counted = max(0, held.counted - 1)  # it was counted when its epoch ended
        held.set_parked(parked=True)
        if not self.router.epochs:
            self.forget_why(held)  # without any partition no key is left, as in `Ending.end`
        self._continue(held)

    # -- commands --------------------------------------------------------------------------------------

    def find(self, key: Hashable, epoch: Epoch) -> Held | None:
        """Return the waiting key of that name in an epoch, with all its records."""
        self.router.unread.end()
        owner = epoch.owners.get(key)
        return owner[0] if owner is not None and owner[0] in self.held else None

    def pause_key(self, key: Hashable, epoch: Epoch) -> bool:
        """Start nothing more of a key; what runs ends first. False where it is paused already."""
        held = self._waiting_key(key, epoch)
        if held.decision is None:
            self._wait(held, PAUSED)
        elif held.is_paused:
            return False
        held.is_paused = True
        return True

    def resume_key(self, key: Hashable, epoch: Epoch) -> bool:
        """Let a paused key continue. False where it is not paused."""
        held = self.find(key, epoch)
        if held is None or not held.is_paused:
            return False
        held.is_paused = False
        if held.decision is PAUSED and held.ticket is None:
            self._continue(held)
        return True

    def retry_key(self, key: Hashable, epoch: Epoch) -> bool:
        """Call the handler again for a waiting key's first record, now. False where the key is not held.

        A key that follows a dead letter continues, too.
        """
        held = self.find(key, epoch)
        if held is None:
            return False
        held.after = "continue"
        if held.ticket is None or held.is_parked:
            held.ticket, held.by_hand = None, []
            self._continue(held)
        return True

    def skip_key(self, key: Hashable, epoch: Epoch, records: int = 1) -> int:
        """Give the first records of a waiting key the result *skipped*; return how many there were."""
        held = self.find(key, epoch)
        if held is None or not held.q or (held.ticket is not None and not held.is_parked):
            return 0
        held.ticket, held.by_hand = None, []
        skipped = min(records, len(held.q))
        for _ in range(skipped):
            self._end_first(held, Outcome.SKIPPED)
        self._continue(held)
        return skipped
