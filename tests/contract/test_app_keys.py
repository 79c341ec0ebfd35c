"""Keys by hand: what holds a commit is shown, and each action does what it says, once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import ActionRefused, ActionTaken, RecordSkipped
from tests.contract.conftest import ALONE, refusal
from tests.kit.waiting import must_stay, wait_until


def test_what_holds_the_commit_is_shown_by_its_head(held: Any) -> None:
    """Key, offset, attempts, error, how many wait, and the value where it is asked for."""
    [blocker] = held.keys.blocking(values=True)
    assert (blocker.name, blocker.key, blocker.handler) == ("t/0@0", "a", "Recorder")
    assert (blocker.status, blocker.attempts, blocker.records) == ("waiting: on hold", 1, 3)
    assert blocker.last_error == "ValueError: no luck with 0"
    assert blocker.value == "x"
    assert held.keys.blocking()[0].value is None


def test_a_skip_lets_the_commit_pass(held: Any, lab: Any, recorder: Any, events: Any) -> None:
    """The head gets the outcome skipped, its followers run, and two events say who asked."""
    preview = held.keys.skip("t/0@0", preview=True)
    assert preview.is_preview
    assert held.keys.blocking()[0].offset == 0
    done = held.keys.skip("t/0@0", by="the operator")
    assert (done.changed, done.name, done.records) == (True, "t/0@0", 1)
    assert preview.text == "t/0@0 (key a) would be skipped."
    assert done.text == "t/0@0 (key a) skipped."
    wait_until(lambda: lab.committed() == 4)
    assert recorder.finished_offsets() == [3, 1, 2]
    wait_until(lambda: events.of(ActionTaken))
    [taken] = events.of(ActionTaken)
    assert (taken.action, taken.what, taken.by) == ("skip", "t/0@0", "the operator")
    assert [event.offset for event in events.of(RecordSkipped)] == [0]
    assert refusal(lambda: held.keys.skip("t/0@0")).reason == "moved"


@pytest.mark.parametrize("name", ["a", "t[0]@0"])
def test_a_skip_of_all_takes_the_lane(held: Any, lab: Any, recorder: Any, name: str) -> None:
    """Also by the key's text, and as the log writes a head."""
    assert held.keys.skip(name, all=True).records == 3
    wait_until(lambda: lab.committed() == 4)
    assert recorder.finished_offsets() == [3]
    assert held.snapshot().skipped_records == 3


def test_an_action_on_a_head_that_has_moved_does_nothing(held: Any, recorder: Any) -> None:
    """A command for offset 0 does not skip offset 1."""
    recorder.fail_at(1)
    held.keys.skip("a", offset=0)
    wait_until(lambda: held.keys.blocking()[0].offset == 1)
    refused = refusal(lambda: held.keys.skip("a", offset=0))
    assert (refused.reason, refused.names) == ("moved", ("t/0@1",))
    assert "t/0@1" in str(refused)
    assert held.keys.blocking()[0].offset == 1


def test_a_retry_calls_the_handler_at_once(held: Any, lab: Any, recorder: Any) -> None:
    """A held head, for which no time is set."""
    recorder.work = None
    assert "is not the first record of its key" in str(refusal(lambda: held.keys.retry("t/0@1")))
    assert held.keys.retry("a").changed
    wait_until(lambda: lab.committed() == 4)
    assert recorder.finished_offsets() == [3, 0, 1, 2]


@pytest.mark.parametrize("all_of_it", [True, False])
def test_dead_letters_by_hand_follow_each_other(
    lab: Any, recorder: Any, read_topic: Any, *, all_of_it: bool
) -> None:
    """The head of a key that waits for a retry, or those behind it, too, in order; headers say why."""
    recorder.fail_at(0)
    options = {
        "retry": ehkafka.Retry(attempts=5, first_s=600.0, max_s=600.0),
        "on_failure": ehkafka.DeadLetter("u"),
    }
    app = lab.start(recorder, **options)
    lab.produce("a a a b")
    wait_until(lambda: recorder.finished_offsets() == [3])
    wait_until(lambda: app.keys.blocking()[0].status == "waiting: retry")
    count = 3 if all_of_it else 1
    assert app.keys.dead_letter("a", all=all_of_it, by="me").records == count
    letters = read_topic("u", count)
    assert [dict(one.headers())["ehkafka-origin-offset"] for one in letters] == [b"0", b"1", b"2"][:count]
    assert b"by hand, requested by me" in dict(letters[0].headers())["ehkafka-error-text"]
    wait_until(lambda: lab.committed() == 4)
    assert app.snapshot().dead_lettered_records == count
    assert recorder.finished_offsets() == ([3] if all_of_it else [3, 1, 2])


def test_what_runs_is_neither_skipped_nor_retried_and_what_waits_behind_it_is_steered(
    lab: Any, recorder: Any
) -> None:
    """A skip is refused with the way past it, a retry has nothing to do; other keys need no free worker."""
    recorder.block(b"a")
    app = lab.start(recorder, workers=1)
    lab.produce("a b")
    wait_until(lambda: app.keys.blocking() and app.keys.blocking()[0].status == "running")
    wait_until(lambda: app.snapshot().received_records == 2)
    refused = refusal(lambda: app.keys.skip("t/0@0"))
    assert refused.reason == "running"
    assert "If the handler never returns, stop the app and use ehkafka offsets skip" in str(refused)
    assert app.keys.blocking()[0].refused["skip"] in str(refused)
    assert not app.keys.retry("t/0@0").changed
    assert app.keys.pause("b").changed
    assert app.keys.skip("b").changed
    assert app.snapshot().skipped_records == 1
    assert recorder.started == [("t", 0, 0)]


def test_a_paused_key_waits_and_goes_on(lab: Any, recorder: Any) -> None:
    """What runs ends, nothing more of it starts, other keys go on; a second pause changes nothing."""
    gate = recorder.block(b"a")
    app = lab.start(recorder)
    lab.produce("a a a")
    wait_until(lambda: recorder.started)
    assert app.keys.pause("a").changed
    assert not app.keys.pause("a").changed
    gate.set()
    wait_until(lambda: recorder.finished_offsets() == [0])
    lab.produce("b a")
    wait_until(lambda: recorder.finished_offsets() == [0, 3])
    must_stay(lambda: recorder.finished_offsets() == [0, 3], for_s=0.3)
    assert app.keys.blocking()[0].status == "waiting: paused"
    assert app.keys.resume("a").changed
    wait_until(lambda: lab.committed() == 5)
    assert not app.keys.resume_partition("t/0").changed


def test_a_pause_ends_after_its_time(lab: Any, recorder: Any, events: Any) -> None:
    """And says so."""
    gate = recorder.block(b"a")
    app = lab.start(recorder)
    lab.produce("a a")
    wait_until(lambda: recorder.started)
    app.keys.pause("a", for_s=0.5)
    gate.set()
    wait_until(lambda: lab.committed() == 2)
    wait_until(lambda: len(events.of(ActionTaken)) == 2)
    assert events.of(ActionTaken)[1].by == "the pause's own time"


def test_a_key_of_a_quick_handler_is_found_and_paused(lab: Any) -> None:
    """However many of its records are in line, and however fast they are handled."""
    release, seen = threading.Event(), list[bytes]()

    def handle(record: Any) -> None:
        seen.append(record.key())
        if len(seen) >= 2_000:
            release.wait(20.0)

    app = lab.app(handle)
    lab.produce(" ".join(f"k{number % 50}" for number in range(3_000)))
    app.start()
    wait_until(lambda: len(seen) >= 2_000)
    wait_until(lambda: app.snapshot().received_records == 3_000)
    assert app.keys.pause("k7").changed
    # Of 60; what runs ends.
    left = 60 - seen.count(b"k7")
    assert left > 0
    release.set()
    wait_until(lambda: len(seen) == 3_000 - left)
    app.keys.resume("k7")
    wait_until(lambda: lab.committed() == 3_000)


def test_names_that_fit_several_keys_are_refused_with_the_list(lab: Any, recorder: Any, events: Any) -> None:
    """The same key in two partitions."""
    recorder.work = lambda _record: (_ for _ in ()).throw(ValueError("no"))
    app = lab.start(recorder, "t4", on_failure=ehkafka.Hold())
    for partition in (1, 3):
        lab.produce("a", topic="t4", partition=partition)
    wait_until(lambda: len(app.keys.blocking()) == 2)
    refused = refusal(lambda: app.keys.skip("a", by="an operator"))
    assert (refused.reason, sorted(refused.names)) == ("ambiguous", ["t4/1@0", "t4/3@0"])
    assert refusal(lambda: app.keys.skip("never")).reason == "unknown"
    assert refusal(lambda: app.keys.skip("t4/9@0")).reason == "elsewhere"
    assert refusal(lambda: app.keys.skip("")).reason == "invalid"
    assert refusal(lambda: app.keys.pause("a", for_s=-1.0)).reason == "invalid"
    wait_until(lambda: len(events.of(ActionRefused)) == 3)
    assert events.of(ActionRefused)[0].by == "an operator"


def test_a_paused_partition_receives_nothing_more(lab: Any, recorder: Any) -> None:
    """Other partitions go on, and a resume brings what was left."""
    app = lab.start(recorder, "t4", consumer=ALONE)
    wait_until(lambda: len(app.snapshot().partitions) == 4)
    assert app.keys.pause_partition("t4/0").changed
    assert not app.keys.pause_partition("t4/0").changed
    for partition in (0, 1):
        lab.produce("a b", topic="t4", partition=partition)
    wait_until(lambda: lab.committed(1, topic="t4") == 2)
    must_stay(lambda: recorder.offsets(0, "t4") == [], for_s=0.5)
    assert app.keys.resume_partition("t4/0").changed
    wait_until(lambda: lab.committed(0, topic="t4") == 2)


def test_a_stopped_handler_starts_nothing_more(lab: Any, recorder: Any) -> None:
    """What runs ends; the others of the app go on; a stop of the app does not wait for it."""
    gate = recorder.block(b"a")
    other = lab.recorder()
    app = lab.app(recorder)

    @app.handler("u")
    def others(record: Any) -> None:
        other(record)

    app.start()
    lab.produce("a b c a", topic="t")
    wait_until(lambda: len(recorder.finished) == 2)
    assert app.keys.stop_handler("Recorder").changed
    assert not app.keys.stop_handler("Recorder").changed
    gate.set()
    lab.produce("d e", topic="t")
    lab.produce("x", topic="u")
    wait_until(lambda: lab.committed(topic="u") == 1)
    wait_until(lambda: len(recorder.finished) == 3)
    must_stay(lambda: len(recorder.finished) == 3, for_s=0.5)
    assert app.keys.start_handler("Recorder").changed
    wait_until(lambda: lab.committed() == 6)
    app.keys.stop_handler("Recorder")
    lab.produce("f", topic="t")
    app.stop(drain="all", timeout_s=10.0)
    assert refusal(lambda: app.keys.start_handler("Recorder")).reason == "stopped"
    assert app.keys.blocking() == []


def test_what_is_paused_and_stopped_by_hand_shows_in_the_snapshot(lab: Any, recorder: Any) -> None:
    """Pages and terminals offer the other button then."""
    app = lab.start(recorder, "t4", consumer=ALONE)
    wait_until(lambda: len(app.snapshot().partitions) == 4)

    def shown() -> tuple[list[bool], bool]:
        snapshot = app.snapshot()
        return [one.is_paused_by_hand for one in snapshot.partitions], snapshot.handlers[0].is_stopped

    assert shown() == ([False] * 4, False)
    app.keys.pause_partition("t4/2")
    assert shown() == ([False, False, True, False], False)
    app.keys.stop_handler("Recorder")
    assert shown() == ([True] * 4, True)
    app.keys.start_handler("Recorder")
    assert shown() == ([False, False, True, False], False)
    app.keys.resume_partition("t4/2")
    assert shown() == ([False] * 4, False)


def test_a_kept_pause_is_taken_over_by_the_next_assignment(lab: Any, recorder: Any) -> None:
    """The one that is not kept ends with the partition."""

    def fail(_record: Any) -> None:
        raise ValueError("no")

    recorder.work = fail
    app = lab.start(recorder, on_failure=ehkafka.Hold())
    lab.produce("kept gone")
    wait_until(lambda: len(app.keys.waiting()) == 2)
    app.keys.pause("kept", keep=True)
    app.keys.pause("gone")
    recorder.work = None
    before = app.snapshot().partitions[0].epoch
    with lab.app(lab.recorder(fail), on_failure=ehkafka.Hold()) as second:
        wait_until(lambda: second.snapshot().partitions or second.snapshot().is_standby)
    wait_until(lambda: app.snapshot().partitions and app.snapshot().partitions[0].epoch > before)
    wait_until(lambda: [one.status for one in app.keys.waiting()] == ["waiting: paused"])
    wait_until(lambda: 1 in recorder.finished_offsets())
    must_stay(lambda: 0 not in recorder.finished_offsets(), for_s=0.5)
    app.keys.resume("kept")
    wait_until(lambda: lab.committed() == 2)


def test_a_preview_reads_as_one(dead: Any) -> None:
    """Whatever it is of: its words say that nothing was done."""

    def handle(record: Any) -> None:
        if record.key() == b"bad":
            raise ehkafka.RetryLater(after_s=60.0)

    dead.produce("bad bad")
    app = dead.start(handle, on_failure=ehkafka.DeadLetter("dead"))
    wait_until(lambda: [one.status for one in app.keys.waiting()] == ["waiting: retry"])

    def text(do: str, target: str, name: str, *, preview: bool = True) -> str:
        asked = {"do": do, "target": target, "name": name, "preview": preview}
        return str(app.keys.act(asked).text)

    assert text("skip", "key", "bad") == "t/0@0 (key bad) would be skipped."
    assert text("retry", "key", "bad") == "t/0@0 (key bad) would be retried at once."
    assert text("dead_letter", "key", "bad") == "t/0@0 (key bad) would go to the dead letters."
    assert text("pause", "key", "bad") == "t/0@0 (key bad) would be paused; 2 records of the key queued."
    assert text("pause", "partition", "t/0").startswith("t/0 would be paused: ")
    assert text("stop", "handler", "handle").startswith("handler handle would be stopped: ")
    for target, name, do, back in (
        ("key", "bad", "pause", "resume"),
        ("partition", "t/0", "pause", "resume"),
        ("handler", "handle", "stop", "start"),
    ):
        assert "would" not in text(do, target, name, preview=False)
        assert " would " in text(back, target, name)
        assert "would" not in text(back, target, name, preview=False)
    app.stop(drain=False)


def test_what_would_be_refused_is_known_before_it_is_asked_for(held: Any) -> None:
    """A held key of a handler without dead letters: its page greys that one button."""
    (key,) = held.keys.blocking()
    assert list(key.refused) == ["dead_letter"]
    refused = refusal(lambda: held.keys.dead_letter("a"))
    assert refused.reason == "no_dead_letter"
    assert "'Recorder'" in str(refused)
    assert key.refused["dead_letter"] in str(refused)
