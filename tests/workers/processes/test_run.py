"""The rules of order between a child's words, its permits, what it sends and its parent's inbox.

Each rule has a mutant that takes its guard out and breaks the order.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.lanes.order import KeyFailure
from ehkafka.workers.processes import child, run, wire
from ehkafka.workers.rate import Pace
from tests.kit.mutant import table
from tests.workers.processes.played import Played, PlayedChild, done, failed, sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.workers.processes.inbox import ChildInbox
    from tests.kit.mutant import Mutant


# -- what is sent ------------------------------------------------------------------------------------------


def test_a_record_ends_once_its_outputs_are_taken() -> None:
    """Else a commit could pass it between the two."""
    one, found = Played("a0"), list[list[int]]()
    one.posts.wait = lambda: found.append(one.unfinished())
    one.run(PlayedChild([[sent(0), done(1)]]))
    assert found == [[0]]


def test_what_cannot_be_sent_fails_its_record_and_nothing_behind_it_is_sent() -> None:
    """What the child has run behind it counts for nothing; the key waits in order, other keys go on."""
    one = Played("a0 b1 a2 a3")
    one.posts.refused.add(0)
    one.run(PlayedChild([[sent(0)], [sent(1)], [sent(2), done(3)]], leaves=1))
    assert one.posts.sent == [(1, "1")]
    assert [(offset, str(error)) for offset, error in one.failures] == [(0, "gone")]
    assert one.held() == [[0, 2, 3]]
    assert (one.unfinished(), one.waiting()) == ([0, 2, 3], [])


def test_a_failure_that_the_child_does_not_know_is_handed_in_at_its_end() -> None:
    """Before that the child may run a later record of the key: called again now, the two would overlap."""
    one = Played("a0 a1 b2")
    one.posts.refused.add(0)
    seen: list[Any] = []
    child = PlayedChild([[sent(0)], [], [done(2)]], leaves=1)
    before = child.receive

    def receive(wait_s: float) -> list[wire.Word]:
        seen.append((one.held(), one.waiting()))
        return before(wait_s)

    child.receive = receive  # type: ignore[method-assign]
    one.run(child)
    assert seen[-1] == ([], [2])
    assert (one.held(), one.waiting()) == ([[0, 1]], [2])


def test_a_record_whose_key_waits_is_left_to_its_outputs() -> None:
    """It is taken over with what follows of its key, and other keys end."""
    one = Played("a0 b1")
    one.posts.awaited.add(0)
    one.receive("a2")
    one.run(PlayedChild([[sent(0), done(2)]]), records_max=2)
    assert (one.held(), one.unfinished()) == ([[0, 2]], [0, 2])


# -- what fails, and what dies -------------------------------------------------------------------------------


def test_a_failure_in_mid_batch_stops_its_key_alone() -> None:
    """The child stops there: what follows of its key waits behind it, others wait in front of the rest."""
    one = Played("b0 a1 b2 a3 b4")
    one.receive("a5 c6")
    one.run(PlayedChild([[failed(1), done(2)]], leaves=3), records_max=5)
    assert one.held() == [[1, 3, 5]]
    assert (one.unfinished(), one.inbox.head, one.waiting()) == ([1, 2, 3, 4, 5, 6], None, [2, 4, 6])


def test_a_failure_without_followers_is_taken_over_while_the_batch_goes_on() -> None:
    """Its retry does not wait for the end of the others."""
    one = Played("a0 b1 c2")
    one.receive("a3")
    held: list[Any] = []
    child = PlayedChild([[failed(0)], [], [], [], [done(3)]])
    before = child.receive

    def receive(wait_s: float) -> list[wire.Word]:
        if not wait_s:
            held.append(one.held())
        return before(wait_s)

    child.receive = receive  # type: ignore[method-assign]
    one.run(child, records_max=3)
    assert held == [[], [[0, 3]]]
    assert one.unfinished() == [0, 3]


def test_a_record_that_has_sent_is_not_charged_with_the_death_that_follows() -> None:
    """Its call had ended; a record that had not is charged, as ever."""
    one = Played("a0 a1")
    dead = PlayedChild([[sent(0)], [], [], [], []], leaves=1)
    dead.is_dead = True
    one.run(dead)
    assert (one.failures, one.deaths, one.waiting(), one.unfinished()) == ([], [False], [1], [1])

    again = Played("a0 a1")
    dead = PlayedChild([[], [], []], leaves=1)
    dead.is_dead = True
    again.run(dead)
    assert ([offset for offset, _ in again.failures], again.deaths) == ([0], [True])
    assert again.held() == [[0, 1]]


# -- between permits and words -------------------------------------------------------------------------------


def test_outputs_are_read_after_the_permits_were_counted() -> None:
    """What counts as finished by its permit alone has been looked for in the pipe."""
    one = Played("a0 b1 c2")
    one.run(PlayedChild([[], [sent(0)], [sent(1), done(2)]], leaves=1))
    assert one.posts.sent == [(0, "0"), (1, "1")]
    assert one.waiting() == [2]


@pytest.mark.parametrize("word", [sent, failed])
@pytest.mark.parametrize("records", ["a0", "a0 b1"])
def test_a_batch_is_taken_back_just_when_its_last_started_record_has_ended(word: Any, records: str) -> None:
    """Nothing runs then: what has not started waits again as if it had never been with the child."""
    one = Played(records)
    left = len(records.split()) - 1
    one.run(PlayedChild([[], [word(0)], [done(1)]], leaves=left))
    assert one.waiting() == [1][:left]
    assert one.unfinished() == ([0] if word is failed else []) + [1][:left]


def test_a_batch_that_takes_too_long_is_taken_back_while_it_tells_of_its_records() -> None:
    """Each of its records is quick to tell, and the last one would still keep the others waiting."""
    one = Played("a0 b1 c2")
    played = PlayedChild([[sent(0)], [], [sent(1)], [done(2)]], leaves=1)
    one.run(played)
    assert played.steps == ["wait", "permits", "read", "wait", "wait"]


def test_what_was_taken_back_comes_again_in_order() -> None:
    """Also by another hand than the child's own thread, between any two of its words."""
    one = Played("a0 a1 a2 b3 b4")
    child = PlayedChild([[sent(0)], [sent(1), done(2)]], leaves=3)
    before = child.receive

    def receive(wait_s: float) -> list[wire.Word]:
        if len(child.says) == 1:
            with one.hub.locked() as inboxes:
                inboxes.ending.drain([one.epoch], lambda _work: True)
        return before(wait_s)

    child.receive = receive  # type: ignore[method-assign]
    one.batch_s = 100.0
    one.run(child)
    # The second record had started, so it is the highest that a drain finishes.
    assert (one.waiting(), one.unfinished(), one.epoch.drain_limit) == ([], [2, 3, 4], 1)
    assert one.epoch.tally.returned_records == 3


# -- deadlines ---------------------------------------------------------------------------------------------


def test_a_wait_for_room_is_not_charged_to_the_record_that_runs() -> None:
    """Its child may have waited for its parent meanwhile, with its outputs half in the pipe."""
    one = Played("a0 b1")
    one.deadline_s, one.batch_s = 5.0, 0.0

    def wait() -> None:
        one.time_s += 10.0

    one.posts.wait = wait
    played = PlayedChild([[], [sent(0)], [], [], [sent(1), done(2)]])
    one.run(played)
    assert "kill" not in played.steps


def test_a_child_in_which_nothing_runs_is_not_overdue() -> None:
    """Its last record has sent and ended; the word that its batch has ended is on its way."""
    one = Played("a0")
    one.deadline_s = 5.0
    played = PlayedChild([[], [sent(0)], [], [], [done(1)]])
    before = played.receive

    def receive(wait_s: float) -> list[wire.Word]:
        one.time_s += 10.0
        return before(wait_s)

    played.receive = receive  # type: ignore[method-assign]
    one.run(played)
    assert "kill" not in played.steps


# -- in the child ------------------------------------------------------------------------------------------


class Reports:
    """Stands for permits and answers of a child: what happened, in its order."""

    def __init__(self, permits: int) -> None:
        self.permits = permits
        self.words: list[str] = []

    def take(self) -> bool:
        """Give a permit."""
        self.words.append("permit")
        self.permits -= 1
        return self.permits >= 0

    def send(self, kind: str, number: int, *values: Any) -> None:
        """Take a word."""
        has_failed = kind == wire.ENDED and values[-1] is not None
        self.words.append(f"{'failed' if has_failed else kind} {number}")


class OneEach:
    """Stands for an outbox: each record sends one."""

    def begin(self, message: Any) -> None:
        """Note nothing."""

    def end(self, *, has_failed: bool) -> tuple[list[str], list[str]]:
        """Give the output."""
        return [] if has_failed else ["x"], []


def reported(
    invoke: Callable[..., object] = lambda _message, _attempt: None,
    records: int = 2,
    *,
    followed: tuple[int, ...] = (),
    is_taken_back: bool = False,
) -> str:
    """Run a batch as a child does, perhaps without the last record's permit; return what the parent hears."""
    fields = ("t", 0, 0, b"k", b"v", None, (1, 0), None, 1)
    seen = Reports(records - 1 if is_taken_back else records)
    child.Caller(seen, invoke, OneEach()).run([fields] * records, followed, seen)  # type: ignore[arg-type]
    return ", ".join(seen.words)


def fail(_message: Any, _attempt: int) -> None:
    """Fail."""
    raise ValueError("no luck")


def test_what_a_record_sends_is_reported_before_the_next_one_starts() -> None:
    """So who finds a permit gone finds in the pipe what all records before it have sent."""
    assert reported() == "permit, ended 0, permit, ended 1, done 2"
    assert reported(records=3, is_taken_back=True) == "permit, ended 0, permit, ended 1, permit, done 2"


def test_what_a_record_had_sent_before_it_failed_comes_with_the_failure() -> None:
    """One word, so that none of the two is ever known without the other."""
    assert reported(fail) == "permit, failed 0, permit, failed 1, done 2"


def test_nothing_is_run_behind_a_failure_where_its_key_has_more() -> None:
    """Its parent takes the rest back."""
    assert reported(fail, followed=(0,)) == "permit, failed 0, done 1"


# -- the inbox ---------------------------------------------------------------------------------------------


def shown(*, moved: bool) -> bool:
    """Look twice at a child's head; tell whether it is another one."""
    one = Played("a0 b1")
    played = PlayedChild([], leaves=2)
    with one.hub.locked():
        one.inbox.permits = played  # type: ignore[assignment]
        one.inbox.take(9, 1 << 20, one_of_a_key=False)
    with one.hub.locked():
        head = one.inbox.head
    played._leaves -= moved
    with one.hub.locked():
        return one.inbox.head is not head


def test_a_look_sees_that_a_child_gets_on() -> None:
    """By its permits, long before its batch has ended: else it would count as one that hangs."""
    assert shown(moved=True)
    assert not shown(moved=False)


def test_a_batch_has_its_limits() -> None:
    """Records, bytes but for a single record, one record of a key where that is wanted."""
    one = Played("a0 b1 a2 c3")
    assert limited(one.inbox, 2, 1 << 20) == 2
    assert limited(one.inbox, 9, 0) == 1
    assert limited(one.inbox, 9, 1 << 20) == 4
    assert limited(one.inbox, 9, 1 << 20, one_of_a_key=True) == 2


def limited(inbox: ChildInbox, records_max: int, bytes_max: int, *, one_of_a_key: bool = False) -> int:
    """Return how many records a batch gets, and put them back."""
    number = len(inbox.take(records_max, bytes_max, one_of_a_key=one_of_a_key))
    inbox.permits = PlayedChild([], leaves=number)  # type: ignore[assignment]
    for entry in inbox.take_back():
        inbox.append(entry)
    inbox.head = None
    return number


def test_a_rate_limits_tokens_come_back_with_the_records() -> None:
    """A record has a token before it is with the child; what the child has not started gives it back."""
    one = Played("a0 b1 c2 d3 e4")
    one.inbox.pace = Pace(32.0, lambda: 0.0)  # four at once
    with one.hub.locked():
        entries = one.inbox.take(9, 1 << 20, one_of_a_key=False)
        one.inbox.permits = PlayedChild([], leaves=2)  # type: ignore[assignment]
        assert (len(entries), one.inbox.pace.tokens) == (4, 0)
        one.inbox.take_back()
    assert one.inbox.pace.tokens == 2


def test_a_history_knows_of_a_long_call_while_it_runs() -> None:
    """The parent finds it, and reports its start once; of others start and end are reported together."""
    one = Played("a0 b1 c2")
    reported: list[str] = []

    @contextmanager
    def noted(entry: Any, _number: int) -> Iterator[None]:
        reported.append(f"{entry[MESSAGE].offset()} runs")
        yield
        reported.append(f"{entry[MESSAGE].offset()} ended")

    one.history = noted
    played = PlayedChild([[], [], [], [done(3)]], leaves=1)
    receive = played.receive

    def inspect(wait_s: float) -> list[wire.Word]:
        reported.append("inspected")
        return receive(wait_s)

    played.receive = inspect  # type: ignore[method-assign]
    one.run(played)
    inspected = ["inspected", "inspected"]
    assert reported == [*inspected, "0 runs", "0 ended", "1 runs", *inspected, "1 ended", "2 runs", "2 ended"]


def test_a_record_without_a_key_is_not_run() -> None:
    """The order function has raised for it: that is its failure, and its child passes over it."""
    one = Played("a0 b1")
    one.receive("c2", keys=[KeyFailure(ValueError("no key"))])
    played = PlayedChild([[done(3)]])
    assert one.run(played) == (3, 0.0)
    assert [record[-1] for record in played.given] == [1, 1, 0]
    assert [(offset, str(error)) for offset, error in one.failures] == [(2, "no key")]
    assert (one.held(), one.inbox.head) == ([[2]], None)


GUARDS = r"""
BatchRun._end: a record ends before its outputs are taken
    self._ended += 1 -> self._ended += 1; self._hand_in()
    by test_a_record_ends_once_its_outputs_are_taken
BatchRun.run: outputs are read before the permits are counted
    words += link.receive(0.0) -> later = link.receive(0.0); link.says[0][:0] = later
    by test_outputs_are_read_after_the_permits_were_counted
BatchRun.run: a batch is taken back only while no word comes
    (not words or time.monotonic() >= self._check_s) -> not words
    by test_a_batch_that_takes_too_long_is_taken_back_while_it_tells_of_its_records
BatchRun._take: a wait for room is the running record's
    self._since_s += self._pool.now_s() - began_s -> pass
    by test_a_wait_for_room_is_not_charged_to_the_record_that_runs
Caller._call: the next permit is taken before outputs are reported
    self._parent.send(wire.ENDED -> self._parent.take(); self._parent.send(wire.ENDED
    by test_what_a_record_sends_is_reported_before_the_next_one_starts
"""


@pytest.mark.parametrize("mutant", table(GUARDS, print, run, child, sys.modules[__name__]), ids=str)
def test_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a rule, its test is red."""
    assert mutant.is_noticed(monkeypatch), f"nothing noticed: {mutant.rule}"
