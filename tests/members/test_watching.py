"""Which member hangs, on virtual time: silence counts only where the supervisor looked."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from ehkafka.members.member import Member
from ehkafka.members.restarts import FIRST_ANSWER_S, Watching
from tests.kit.clock import VirtualClock

HUNG_S = 6.0
TURN_S = 0.1


class Process:
    """A process that begins now."""

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s


class Scene:
    """A supervisor that looks after one member."""

    def __init__(self, hung_s: float = HUNG_S) -> None:
        self.clock = VirtualClock()
        self.watching = Watching(hung_s, self.clock.now_s)
        self.member = Member(1)
        self.member.begin(Process(self.clock.now_s()))  # type: ignore[arg-type]

    def answer(self, *not_live: str) -> None:
        """Have the member answer."""
        answer: Future[Any] = Future()
        answer.set_result((200, {"not_live": list(not_live)}))
        self.member.take(answer, self.clock.now_s())

    def turn(self, lasts_s: float = TURN_S) -> float | None:
        """Let a turn pass; return what the next one says before it has heard anything."""
        self.clock.advance(lasts_s)
        self.watching.note_turn()
        return self.watching.hung_s(self.member)

    def reported_after_s(self, turn_s: float = TURN_S) -> float:
        """Return how long it takes until the member is reported, with such turns."""
        began_s = self.clock.now_s()
        while self.turn(turn_s) is None:
            assert self.clock.now_s() < began_s + 100.0
        return self.clock.now_s() - began_s


def test_a_member_that_stood_still_with_its_supervisor_does_not_hang() -> None:
    """It answers once both go on; also where its last answer, or that it was ill, is older."""
    scene = Scene()
    scene.answer()
    for _ in range(10):
        assert scene.turn() is None
    for _ in range(3):
        assert scene.turn(2 * HUNG_S) is None
        assert scene.turn() is None
    scene.answer("The poll thread has ended.")
    assert scene.turn(2 * HUNG_S) is None
    scene.answer()
    assert scene.reported_after_s() == pytest.approx(HUNG_S, abs=2 * TURN_S)


def test_a_stop_in_the_middle_of_a_turn_counts_no_more() -> None:
    """After the turn has begun, and before it looks at the member."""
    scene = Scene()
    scene.answer()
    assert scene.turn() is None
    scene.clock.advance(2 * HUNG_S)
    assert scene.watching.hung_s(scene.member) is None


@pytest.mark.parametrize("hung_s", [1.0, HUNG_S, 60.0])
@pytest.mark.parametrize("ill", [(), ("The poll thread has ended.",)])
def test_one_that_hangs_is_reported_in_time(hung_s: float, ill: tuple[str, ...]) -> None:
    """Be it silent or ill, and also after a stop of all: that counts as one turn."""
    scene = Scene(hung_s)
    scene.answer(*ill)
    # A turn counts for a twelfth at most: with the shortest time somewhat less than it takes.
    assert hung_s <= scene.reported_after_s() <= 1.2 * hung_s + 2 * TURN_S
    scene.answer()
    scene.answer(*ill)
    assert scene.turn(10 * hung_s) is None
    assert 0.8 * hung_s <= scene.reported_after_s() <= 1.2 * hung_s


def test_one_that_hangs_is_reported_where_the_supervisor_stands_again_and_again() -> None:
    """Later, but it is: each turn counts for something."""
    scene = Scene()
    scene.answer()
    assert scene.reported_after_s(turn_s=HUNG_S) == pytest.approx(12 * HUNG_S)


def test_a_start_may_take_longer_and_does_not_count_a_stop_either() -> None:
    """However short `hung_s` is, and however often turns take long afterwards."""
    scene = Scene(hung_s=1.0)
    assert scene.turn(10 * FIRST_ANSWER_S) is None
    for _ in range(20):
        assert scene.turn(0.5) is None
    assert 15.0 < scene.reported_after_s() < FIRST_ANSWER_S
