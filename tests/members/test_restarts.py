"""What follows an end, how long the next start waits, and who is replaced when."""

from __future__ import annotations

import pytest

from ehkafka.members.restarts import FIRST_S, LOOP_ENDS, MOST_S, RECOVERED_S, Backoff, Rollover, ends_all


@pytest.mark.parametrize(
    ("code", "before", "afterwards"),
    [
        (1, True, True),
        (2, True, True),
        (3, True, False),
        (4, False, False),
        (5, True, True),
        (0, False, False),
        (70, False, False),
        (130, False, False),
        (-9, False, False),
        (99, False, False),
    ],
)
def test_which_codes_end_all_members(code: int, before: bool, afterwards: bool) -> None:
    """A broker that is away is a mistake before any member had an assignment, and an outage afterwards."""
    assert ends_all(code, has_worked=False) is before
    assert ends_all(code, has_worked=True) is afterwards


def test_waits_double_up_to_a_bound() -> None:
    """Who dies at once again and again costs next to nothing."""
    backoff = Backoff()
    waits = [backoff.after(0.1) for _ in range(12)]
    assert waits[:4] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert waits[-1] == MOST_S
    assert waits == sorted(waits)


def test_a_loop_is_known_by_its_ends() -> None:
    """One mishap is none, and neither are ends with good lives between them."""
    backoff = Backoff()
    for _ in range(LOOP_ENDS - 1):
        backoff.after(0.1)
    assert not backoff.is_loop
    backoff.after(0.1)
    assert backoff.is_loop
    backoff.after(3_600.0)
    assert not backoff.is_loop


def test_a_good_life_begins_anew() -> None:
    """One as long as it had waited for it: a record that ends each process at once is not met in a hurry."""
    backoff = Backoff()
    for _ in range(5):
        backoff.after(0.0)
    assert backoff.after(RECOVERED_S) == 32 * FIRST_S
    assert backoff.after(64 * FIRST_S) == FIRST_S
    assert backoff.after(RECOVERED_S) == FIRST_S


class Members:
    """Processes by number, and which of them are ready."""

    def __init__(self, *numbers: int) -> None:
        self.running = set(numbers)
        self.ready = set(numbers)
        self.stopped: list[int] = []

    def step(self, rollover: Rollover) -> int | None:
        """Let it go on."""
        number = rollover.next_to_stop(self.running.__contains__, self.ready.__contains__)
        if number is not None:
            self.stopped.append(number)
            self.ready.discard(number)
        return number

    def end(self, rollover: Rollover, number: int) -> bool:
        """Let a process end."""
        self.running.discard(number)
        self.ready.discard(number)
        return rollover.ended(number)

    def come(self, number: int) -> None:
        """Start a process, and let it be ready."""
        self.running.add(number)
        self.ready.add(number)


def test_the_next_one_is_stopped_when_the_new_one_is_ready() -> None:
    """One at a time, in order, each once."""
    members, rollover = Members(1, 2, 3), Rollover()
    rollover.begin([1, 2, 3])
    for number in (1, 2, 3):
        assert members.step(rollover) == number
        assert members.step(rollover) is None  # it still stops
        assert members.end(rollover, number)
        members.running.add(number)
        assert members.step(rollover) is None  # it runs, and is not ready
        members.come(number)
    assert members.step(rollover) is None
    assert not rollover.is_active
    assert members.stopped == [1, 2, 3]


def test_an_old_process_that_is_still_ready_is_not_taken_for_the_new_one() -> None:
    """Between the order to stop and the end it answers as before."""
    members, rollover = Members(1, 2), Rollover()
    rollover.begin([1, 2])
    assert members.step(rollover) == 1
    members.ready.add(1)
    assert members.step(rollover) is None
    assert rollover.current == 1


def test_a_member_that_is_down_is_only_waited_for() -> None:
    """It is started with the new code anyway."""
    members, rollover = Members(2), Rollover()
    rollover.begin([1, 2])
    assert members.step(rollover) is None
    assert rollover.current == 1
    members.come(1)
    assert members.step(rollover) == 2
    assert members.stopped == [2]


def test_the_end_of_another_member_is_nothing_of_the_restarts() -> None:
    """It crashed, and waits as crashed ones do; the restart goes on."""
    members, rollover = Members(1, 2, 3), Rollover()
    rollover.begin([1, 2, 3])
    assert members.step(rollover) == 1
    assert not members.end(rollover, 3)
    assert members.end(rollover, 1)
    # The new one crashes in its start: no planned end.
    assert not members.end(rollover, 1)
    assert members.step(rollover) is None


def test_asked_for_again_it_replaces_those_again_that_it_has_replaced() -> None:
    """Newer code came in the middle; no member is replaced twice for nothing."""
    members, rollover = Members(1, 2, 3), Rollover()
    rollover.begin([1, 2, 3])
    members.step(rollover)
    members.end(rollover, 1)
    members.come(1)
    assert members.step(rollover) == 2
    rollover.begin([1, 2, 3])
    while rollover.is_active:
        if rollover.current is not None and members.end(rollover, rollover.current):
            members.come(members.stopped[-1])
        members.step(rollover)
    assert members.stopped == [1, 2, 3, 1, 2]


def test_a_stop_ends_it() -> None:
    """No member is started any more."""
    members, rollover = Members(1, 2), Rollover()
    rollover.begin([1, 2])
    members.step(rollover)
    rollover.cancel()
    assert not rollover.is_active
    assert not members.end(rollover, 1)
