"""What a key does after its dead letter, and when too many of them stop the app."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.letters import TO_DEAD, dead_lettered, headers_of, offsets_of, rejecting
from tests.kit.waiting import must_stay, wait_until


def test_the_letters_of_one_key_keep_its_order(dead: Any, read_topic: Any) -> None:
    """In one partition, in the order of the offsets, whatever else fails meanwhile."""
    dead.produce(" ".join(["a b c d"] * 10))
    app = dead.start(rejecting(b"a", b"b", b"c"), workers=8, on_failure=TO_DEAD)
    wait_until(lambda: dead.committed() == 40)
    app.stop()
    letters = read_topic("dead", 30)
    for first, key in enumerate((b"a", b"b", b"c")):
        ours = [letter for letter in letters if letter.key() == key]
        assert len({letter.partition() for letter in ours}) == 1
        assert offsets_of(ours) == list(range(first, 40, 4))


def test_hold_key_makes_the_next_records_wait_until_a_restart(dead: Any, recorder: Any) -> None:
    """Other keys go on; what waits is uncommitted, and runs when the assignment is a new one."""
    recorder.fail_at(0)
    dead.produce("a a b a")
    policy = ehkafka.DeadLetter("dead", after="hold_key")
    app = dead.start(recorder, on_failure=policy)
    wait_until(lambda: recorder.finished_offsets() == [2] and dead.committed() == 1)
    must_stay(lambda: dead.committed() == 1)
    assert "an earlier record of its key was dead-lettered" in str(app.health().reasons)
    app.stop()
    again = dead.recorder()
    second = dead.start(again, on_failure=policy)
    wait_until(lambda: dead.committed() == 4)
    second.stop()
    assert again.offsets() == [1, 3]  # what had finished above the commit is known


def test_divert_key_sends_the_next_records_after_it_without_a_try(
    dead: Any, recorder: Any, read_topic: Any
) -> None:
    """In order, marked as followers; a restart forgets it."""
    recorder.fail_at(0)
    dead.produce("a a b a")
    policy = ehkafka.DeadLetter("dead", after="divert_key")
    app = dead.start(recorder, on_failure=policy)
    wait_until(lambda: dead.committed() == 4)
    app.stop()
    assert recorder.finished_offsets() == [2]
    assert recorder.keys.count(b"a") == 1
    letters = read_topic("dead", 3)
    assert offsets_of(letters) == [0, 1, 3]
    seen = [headers_of(letter) for letter in letters]
    assert [(one["ehkafka-error-type"], one["ehkafka-attempts"]) for one in seen] == [
        ("ValueError", "1"),
        ("", "0"),
        ("", "0"),
    ]
    assert seen[1]["ehkafka-error-text"] == "an earlier record of its key was dead-lettered"
    again = dead.recorder()
    dead.start(again, on_failure=policy)
    dead.produce("a")
    wait_until(lambda: again.finished_offsets() == [4])


def test_too_many_in_a_row_stop_the_app_and_say_why(dead: Any) -> None:
    """Three letters are written, the fourth record is not passed."""
    dead.produce("b1 b2 b3 b4 b5")
    policy = ehkafka.DeadLetter("dead", run_max=3)
    app = dead.start(rejecting(b"b1", b"b2", b"b3", b"b4", b"b5"), workers=1, on_failure=policy)
    ends_with(app, ehkafka.errors.HandlerFailedError, r"4 records in a row failed permanently \(run_max=3\)")
    assert dead_lettered(app) == 3
    assert dead.committed() in (None, 0, 1, 2, 3)


def test_successes_in_between_are_seen_however_quick_the_handler_is(dead: Any) -> None:
    """With every second record good, no run grows, also where one worker takes them all at once."""
    bad = [b"b%d" % n for n in range(200)]
    dead.produce(" ".join(f"g{n} b{n}" for n in range(200)))
    app = dead.start(rejecting(*bad), workers=1, on_failure=ehkafka.DeadLetter("dead", run_max=3))
    wait_until(lambda: dead.committed() == 400)
    app.stop()
    assert dead_lettered(app) == 200


def test_on_limit_hold_keeps_each_further_record_and_the_app_runs(dead: Any) -> None:
    """The share is over its limit: two letters, the rest is held and named."""
    bad = [b"b%d" % n for n in range(5)]
    dead.produce("b0 b1 b2 b3 b4 good")
    policy = ehkafka.DeadLetter("dead", ratio_max=0.002, on_limit="hold")
    handler = rejecting(*bad)
    app = dead.start(handler, workers=1, on_failure=policy)
    wait_until(lambda: handler.done == [5] and dead_lettered(app) == 2 and dead.committed() == 2)
    wait_until(lambda: app.snapshot().partitions[0].parked_records == 3)
    assert app.state == "running"
    app.stop()
    assert dead.committed() == 2


def test_a_stop_waits_for_the_letters_on_their_way(dead: Any) -> None:
    """The record is committed, so that no second letter is written after the restart."""
    dead.produce("bad")
    dead.broker.delay_next(ApiKey.PRODUCE, 0.5)
    app = dead.start(rejecting(b"bad"), on_failure=TO_DEAD)
    wait_until(lambda: app.snapshot().partitions and "its dead letter" in str(app.snapshot().partitions))
    app.stop()
    assert dead.committed() == 1


def test_a_letter_in_flight_at_a_revoke_is_stale_and_written_again(dead: Any, read_topic: Any) -> None:
    """At least once: what was not committed is handled and dead-lettered again after a restart."""
    dead.produce("bad")
    dead.broker.delay_next(ApiKey.PRODUCE, 1.0)
    app = dead.start(rejecting(b"bad"), stop_s=0.2, on_failure=TO_DEAD)
    wait_until(lambda: app.snapshot().partitions and "its dead letter" in str(app.snapshot().partitions))
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key bad"):
        app.stop()
    assert dead.committed() in (None, 0)
    second = dead.start(rejecting(b"bad"), on_failure=TO_DEAD)
    wait_until(lambda: dead.committed() == 1)
    second.stop()
    assert offsets_of(read_topic("dead", 2)) == [0, 0]
