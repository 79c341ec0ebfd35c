"""Dead letters: what is in one, when its record is done, and what cannot be written."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import DeadLetterFailed, HandlerFailed, ProducerPlain, RecordDeadLettered
from ehkafka.recovery.letters import target
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.letters import TO_DEAD, TWICE, dead_lettered, headers_of, offsets_of, rejecting
from tests.kit.waiting import must_stay, wait_until


def test_a_letter_is_the_record_and_says_where_it_comes_from_and_why(
    dead: Any, read_topic: Any, events: Any
) -> None:
    """Key, value and headers as they came, then origin, error, attempts, times, handler and group."""
    own = [("traceparent", b"00-1-2-01"), ("twice", b"1"), ("twice", None), ("binary", b"\x00\xff")]
    dead.broker.produce("t", [(b"\xffkey", b"\x00value")], partition=0, headers=own)

    def fails(_record: Any) -> None:
        raise PermissionError("forbidden \udcff here")

    app = dead.app(fails, retry=TWICE, on_failure=TO_DEAD)
    before_ms = int(time.time() * 1000)
    app.start()
    wait_until(lambda: dead.committed() == 1)
    app.stop()
    (letter,) = read_topic("dead", 1)
    assert (letter.key(), letter.value()) == (b"\xffkey", b"\x00value")
    assert letter.headers()[:4] == own
    text = dict(letter.headers()[4:])
    assert before_ms <= int(text.pop("ehkafka-failed-at-ms")) <= int(time.time() * 1000)
    assert b"in fails\nTraceback" in text.pop("ehkafka-error-stack")
    assert abs(int(text.pop("ehkafka-origin-timestamp-ms")) - before_ms) < 60_000
    assert text == {
        "ehkafka-origin-topic": b"t",
        "ehkafka-origin-partition": b"0",
        "ehkafka-origin-offset": b"0",
        "ehkafka-error-type": b"PermissionError",
        "ehkafka-error-text": b"PermissionError: forbidden \\udcff here",
        "ehkafka-attempts": b"2",
        "ehkafka-handler": b"fails",
        "ehkafka-group": b"g",
    }
    assert [(e.offset, e.to) for e in events.of(RecordDeadLettered)] == [(0, "dead")]
    (failed,) = events.of(HandlerFailed)
    assert (failed.attempt, failed.decision) == (2, "its dead letter goes to dead")


def test_nothing_is_committed_before_the_letter_is_acknowledged(dead: Any) -> None:
    """While the broker holds the answer back, the record is unfinished and its key waits."""
    handler = rejecting(b"bad")
    dead.produce("x bad bad y")
    dead.broker.delay_next(ApiKey.PRODUCE, 0.8)
    app = dead.start(handler, on_failure=TO_DEAD)
    wait_until(lambda: sorted(handler.done) == [0, 3] and dead.committed() == 1)
    must_stay(lambda: dead.committed() == 1 and dead_lettered(app) == 0, for_s=0.2)
    wait_until(lambda: dead.committed() == 4)
    assert dead_lettered(app) == 2


def test_a_letter_that_is_refused_for_now_is_tried_again_while_other_keys_go_on(
    dead: Any, events: Any, read_topic: Any
) -> None:
    """Rights are missing: reported each time, nothing committed past it, written once that is fixed."""
    handler = rejecting(b"bad")
    app = dead.start(handler, on_failure=TO_DEAD)
    refused = KafkaError.TOPIC_AUTHORIZATION_FAILED
    # The test's own request passes; then the letter is refused with its batch, and twice alone.
    dead.broker.fail_next(ApiKey.PRODUCE, 0, refused, refused, refused)
    dead.produce("bad x y")
    wait_until(lambda: len(events.of(DeadLetterFailed)) == 1)
    wait_until(lambda: sorted(handler.done) == [1, 2])
    assert dead.committed() in (None, 0)
    wait_until(lambda: dead.committed() == 3)
    app.stop()
    assert [e.retry_s for e in events.of(DeadLetterFailed)][:2] == [0.5, 1.0]
    assert "TOPIC_AUTHORIZATION_FAILED" in events.of(DeadLetterFailed)[0].error
    assert offsets_of(read_topic("dead", 1)) == [0]


def test_a_letter_too_large_for_its_topic_holds_the_record_and_says_so(dead: Any, events: Any) -> None:
    """No broker would ever take it: reported once, the offset held, other keys go on."""
    handler = rejecting(b"bad")
    dead.produce("bad", value=b"x" * 999_880)
    dead.produce("x")
    app = dead.start(handler, on_failure=TO_DEAD, consumer={"message.max.bytes": 1_000_000})
    wait_until(lambda: handler.done == [1] and events.of(DeadLetterFailed))
    must_stay(lambda: dead.committed() in (None, 0))
    (failed,) = events.of(DeadLetterFailed)
    assert (failed.offset, failed.retry_s) == (0, None)
    (reason,) = app.health().reasons
    assert "t[0]@0, key bad" in reason
    assert "refuses its dead letter: MSG_SIZE_TOO_LARGE" in reason
    assert "raise the property message.max.bytes: App(consumer=" in reason


def test_a_function_takes_letters_and_is_called_again_while_it_raises(
    lab: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is done when it returns; a letter that fails does not keep others waiting."""
    monkeypatch.setattr("ehkafka.recovery.letters.target.RETRY_FIRST_S", 0.05)
    taken: list[Any] = []
    failures = [OSError("away"), SystemExit()]

    def keep(letter: Any) -> None:
        if letter.key == b"a" and failures:
            raise failures.pop(0)
        taken.append(letter)

    lab.produce("a b")
    app = lab.start(rejecting(b"a", b"b"), on_failure=ehkafka.DeadLetter(keep))
    wait_until(lambda: lab.committed() == 2)
    app.stop()
    assert [(letter.key, letter.offset, letter.value) for letter in taken] == [
        (b"b", 1, b"x"),
        (b"a", 0, b"x"),
    ]
    assert taken[0].header("ehkafka-attempts") == b"1"
    assert [e.error for e in events.of(DeadLetterFailed)] == ["OSError: away", "SystemExit"]


@pytest.mark.parametrize("is_function", [False, True])
def test_letters_without_an_answer_turn_health_red_until_they_are_safe(
    dead: Any, events: Any, monkeypatch: pytest.MonkeyPatch, *, is_function: bool
) -> None:
    """A silent broker, or a function that does not return, is reported like a refusal, with the reason."""
    monkeypatch.setattr(target, "LATE_S", 0.3)
    go_on = threading.Event()

    def keep(_letter: Any) -> None:
        go_on.wait(20.0)

    app = dead.start(rejecting(b"bad"), on_failure=ehkafka.DeadLetter(keep) if is_function else TO_DEAD)
    leaderless = () if is_function else (0, 1)
    for partition in leaderless:
        dead.broker.move_leader("dead", partition, None)
    dead.produce("bad a")
    wait_until(lambda: not app.health().ok and events.of(DeadLetterFailed))
    (reason,) = app.health().reasons
    to, why = ("keep", "the function has not returned") if is_function else ("dead", "has not answered")
    assert f"The dead letter of t[0]@0 has not been acknowledged by {to}" in reason
    assert why in reason
    (late,) = events.of(DeadLetterFailed)
    assert (late.offset, late.key, late.retry_s) == (0, "bad", 0.0)
    assert dead.committed() in (None, 0)
    go_on.set()
    for partition in leaderless:
        dead.broker.move_leader("dead", partition, 1)
    wait_until(lambda: app.health().ok and dead.committed() == 2)


def test_a_broker_without_producer_ids_is_written_to_all_the_same(
    dead: Any, events: Any, read_topic: Any
) -> None:
    """The emulator's old front end may be one: letters are written by a plain producer, and it is said."""
    dead.broker.disable(ApiKey.INIT_PRODUCER_ID)
    app = dead.start(rejecting(b"bad"), on_failure=TO_DEAD)
    dead.produce("bad bad a bad")
    wait_until(lambda: dead.committed() == 4)
    assert app.health().ok
    app.stop()
    assert offsets_of(read_topic("dead", 3)) == [0, 1, 3]
    (plain,) = events.of(ProducerPlain)
    assert "Idempotent producer not supported" in plain.reason


# --- order ---


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
    assert ["ehkafka-error-stack" in one for one in seen] == [True, False, False]
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
