"""What a key does after its dead letter, and when too many of them stop the app."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import DeadLetterFailed, RecordDeadLettered
from ehkafka.testing import ApiKey
from tests.contract.letters import TO_DEAD, dead_lettered, headers_of, offsets_of, rejecting


def test_the_letters_of_one_key_keep_its_order(dead: Any, wait_for: Any, read_topic: Any) -> None:
    """In one partition, in the order of the offsets, whatever else fails meanwhile."""
    dead.produce(" ".join(["a b c d"] * 10))
    app = dead.app(rejecting(b"a", b"b", b"c"), workers=8, on_failure=TO_DEAD)
    app.start()
    wait_for(lambda: dead.committed() == 40)
    app.stop()
    letters = read_topic("dead", 30)
    for first, key in enumerate((b"a", b"b", b"c")):
        ours = [letter for letter in letters if letter.key() == key]
        assert len({letter.partition() for letter in ours}) == 1
        assert offsets_of(ours) == list(range(first, 40, 4))


def test_continue_lets_the_next_records_run(dead: Any, recorder: Any, wait_for: Any) -> None:
    """The key goes on behind its dead letter."""
    recorder.fail_at(0)
    dead.produce("a a a")
    app = dead.app(recorder, on_failure=ehkafka.DeadLetter("dead", after="continue"))
    app.start()
    wait_for(lambda: dead.committed() == 3)
    app.stop()
    assert recorder.finished_offsets() == [1, 2]


def test_hold_key_makes_the_next_records_wait_until_a_restart(
    dead: Any, recorder: Any, wait_for: Any, stays: Any
) -> None:
    """Other keys go on; what waits is uncommitted, and runs when the assignment is a new one."""
    recorder.fail_at(0)
    dead.produce("a a b a")
    policy = ehkafka.DeadLetter("dead", after="hold_key")
    app = dead.app(recorder, on_failure=policy)
    app.start()
    wait_for(lambda: recorder.finished_offsets() == [2] and dead.committed() == 1)
    stays(lambda: dead.committed() == 1)
    assert "an earlier record of its key was dead-lettered" in str(app.health().reasons)
    app.stop()
    again = dead.recorder()
    second = dead.app(again, on_failure=policy)
    second.start()
    wait_for(lambda: dead.committed() == 4)
    second.stop()
    assert again.offsets() == [1, 3]  # what had finished above the commit is known


def test_divert_key_sends_the_next_records_after_it_without_a_try(
    dead: Any, recorder: Any, wait_for: Any, read_topic: Any
) -> None:
    """In order, marked as followers; a restart forgets it."""
    recorder.fail_at(0)
    dead.produce("a a b a")
    policy = ehkafka.DeadLetter("dead", after="divert_key")
    app = dead.app(recorder, on_failure=policy)
    app.start()
    wait_for(lambda: dead.committed() == 4)
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
    second = dead.app(again, on_failure=policy)
    second.start()
    dead.produce("a")
    wait_for(lambda: again.finished_offsets() == [4])
    second.stop()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
def test_an_exit_is_never_dead_lettered(
    dead: Any, recorder: Any, events: Any, error: type[BaseException]
) -> None:
    """The app stops without committing the record."""
    recorder.fail_at(1, error=error)
    dead.produce("a b c")
    app = dead.app(recorder, workers=1, on_failure=TO_DEAD)
    app.add_hook(events)
    app.start()
    assert app.wait(15.0)
    with pytest.raises(ehkafka.errors.HandlerFailedError, match=error.__name__):
        app.stop()
    assert events.of(RecordDeadLettered) == []
    assert dead.committed() in (None, 0, 1)


def test_too_many_in_a_row_stop_the_app_and_say_why(dead: Any, wait_for: Any) -> None:
    """Three letters are written, the fourth record is not passed."""
    dead.produce("b1 b2 b3 b4 b5")
    policy = ehkafka.DeadLetter("dead", run_max=3)
    app = dead.app(rejecting(b"b1", b"b2", b"b3", b"b4", b"b5"), workers=1, on_failure=policy)
    app.start()
    assert app.wait(15.0)
    with pytest.raises(
        ehkafka.errors.HandlerFailedError, match=r"4 records in a row failed permanently \(run_max=3\)"
    ):
        app.stop()
    assert dead_lettered(app) == 3
    assert dead.committed() in (None, 0, 1, 2, 3)


def test_successes_in_between_are_seen_however_quick_the_handler_is(dead: Any, wait_for: Any) -> None:
    """With every second record good, no run grows, also where one worker takes them all at once."""
    bad = [b"b%d" % n for n in range(200)]
    dead.produce(" ".join(f"g{n} b{n}" for n in range(200)))
    app = dead.app(rejecting(*bad), workers=1, on_failure=ehkafka.DeadLetter("dead", run_max=3))
    app.start()
    wait_for(lambda: dead.committed() == 400)
    app.stop()
    assert dead_lettered(app) == 200


def test_on_limit_hold_keeps_each_further_record_and_the_app_runs(dead: Any, wait_for: Any) -> None:
    """The share is over its limit: two letters, the rest is held and named."""
    bad = [b"b%d" % n for n in range(5)]
    dead.produce("b0 b1 b2 b3 b4 good")
    policy = ehkafka.DeadLetter("dead", ratio_max=0.002, on_limit="hold")
    handler = rejecting(*bad)
    app = dead.app(handler, workers=1, on_failure=policy)
    app.start()
    wait_for(lambda: handler.done == [5] and dead_lettered(app) == 2 and dead.committed() == 2)
    wait_for(lambda: app.snapshot().partitions[0].parked_records == 3)
    assert app.state == "running"
    app.stop()
    assert dead.committed() == 2


def test_letters_in_a_circle_are_refused_and_a_handler_of_letters_is_not(lab: Any, recorder: Any) -> None:
    """Over two handlers too; a topic of letters may well have a handler of its own."""

    def first(record: Any) -> None:
        recorder(record)

    def second(record: Any) -> None:
        recorder(record)

    app = lab.app()
    app.handler("t", on_failure=ehkafka.DeadLetter("u"))(first)
    app.handler("u", on_failure=ehkafka.DeadLetter("t"))(second)
    with pytest.raises(ehkafka.errors.ConfigurationError, match="in a circle: first → second → first"):
        app.start()
    fine = lab.app()
    fine.handler("t", on_failure=ehkafka.DeadLetter("u"))(first)
    fine.handler("u")(second)
    fine.start()
    fine.stop()


def test_a_stop_waits_for_the_letters_on_their_way(dead: Any, wait_for: Any) -> None:
    """The record is committed, so that no second letter is written after the restart."""
    dead.produce("bad")
    dead.broker.delay_next(ApiKey.PRODUCE, 0.5)
    app = dead.app(rejecting(b"bad"), on_failure=TO_DEAD)
    app.start()
    wait_for(lambda: app.snapshot().partitions and "its dead letter" in str(app.snapshot().partitions))
    app.stop()
    assert dead.committed() == 1


def test_a_stop_does_not_wait_for_ever_for_a_letter_that_nobody_takes(
    dead: Any, wait_for: Any, events: Any
) -> None:
    """At the deadline it leaves, names the record, commits nothing past it and leaves no thread."""
    app = dead.app(rejecting(b"bad"), stop_s=0.5, on_failure=TO_DEAD)
    app.add_hook(events)
    app.start()
    dead.broker.fail_next(ApiKey.PRODUCE, 0, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 20)
    dead.produce("bad")
    wait_for(lambda: events.of(DeadLetterFailed))
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key bad"):
        app.stop()
    assert dead.committed() in (None, 0)


def test_a_letter_in_flight_at_a_revoke_is_stale_and_written_again(
    dead: Any, wait_for: Any, read_topic: Any
) -> None:
    """At least once: what was not committed is handled and dead-lettered again after a restart."""
    dead.produce("bad")
    dead.broker.delay_next(ApiKey.PRODUCE, 1.0)
    app = dead.app(rejecting(b"bad"), stop_s=0.2, on_failure=TO_DEAD)
    app.start()
    wait_for(lambda: app.snapshot().partitions and "its dead letter" in str(app.snapshot().partitions))
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@0 key bad"):
        app.stop()
    assert dead.committed() in (None, 0)
    second = dead.app(rejecting(b"bad"), on_failure=TO_DEAD)
    second.start()
    wait_for(lambda: dead.committed() == 1)
    second.stop()
    assert offsets_of(read_topic("dead", 2)) == [0, 0]
