"""Moves the clock of a test from one thing that is due to the next, and lets the app do each before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.records import TopicPartition
    from ehkafka.run.runtime import Runtime
    from ehkafka.testing.in_test.moved_clock import MovedClock

# How long the app gets, in real time, to receive what was sent, and to do what has become due. A handler that
# takes longer continues in real time.
RECEIVED_S = 5.0
AT_REST_S = 1.0
# A letter takes milliseconds. One that is not safe by then waits for its next attempt, by the same clock.
LETTERS_S = 0.2
# In real time; then the clock is moved by all that is left at once: a rate limit makes very many steps.
STEPS_S = 10.0
_CHECK_S = 0.002


def advance(
    run: Runtime,
    clock: MovedClock,
    seconds: float,
    *,
    ends: Mapping[TopicPartition, int],
) -> None:
    """Move the clock by so many seconds, once all up to the logs' `ends` is received and has been tried."""
    ends_s = clock.now_s() + seconds
    _let_receive(run, ends)
    _let_rest(run)
    steps_end_s = time.monotonic() + STEPS_S
    while time.monotonic() < steps_end_s and (due_s := run.routes.next_due_s()) is not None:
        if due_s >= ends_s:
            break
        clock.move(max(0.0, due_s - clock.now_s()))
        if not _let_rest(run):
            break  # what is due waits for a handler, and no step would change that
    clock.move(max(0.0, ends_s - clock.now_s()))
    _let_rest(run)


def _let_receive(run: Runtime, ends: Mapping[TopicPartition, int]) -> None:
    """Wait until all of it is in inboxes: what the history hears comes before that."""
    give_up_s = time.monotonic() + RECEIVED_S
    while run.state == "running" and not run.routes.has_received(ends) and time.monotonic() < give_up_s:
        time.sleep(_CHECK_S)


def _let_rest(run: Runtime) -> bool:
    """Wait until nothing runs, and nothing that is due is left to run; False where that takes too long."""
    began_s = time.monotonic()
    while True:
        waited_s = time.monotonic() - began_s
        if run.state == "stopped" or run.routes.is_at_rest(letters=waited_s < LETTERS_S):
            return True
        if waited_s >= AT_REST_S:
            return False
        time.sleep(_CHECK_S)
