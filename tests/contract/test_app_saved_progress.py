"""What is finished above a commit: saved with it, restored at the next assignment, never believed blindly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import OffsetGap, ProgressIgnored, ProgressRestored
from ehkafka.testing import ApiKey
from tests.contract.mirrored import commit, commit_of, finished_in, text_of
from tests.kit.events import Events
from tests.kit.inside import inside
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from tests.contract.kinds import Stage


T0 = ehkafka.TopicPartition("t", 0)
TEN = "k0 k1 k2 k3 k4 k5 k6 k7 k8 k9"


def stop_undrained(app: Any) -> None:
    """Stop without waiting for what is blocked."""
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(drain=False, timeout_s=0.3)


def run_again(lab: Any, end: int, **options: Any) -> tuple[Any, Any]:
    """Run another app until the group has committed all; return its handler and its events."""
    seen, events = lab.recorder(), Events()
    app = lab.app(seen, **options)
    app.add_hook(events)
    app.start()
    wait_until(lambda: lab.committed() == end)
    app.stop()
    return seen, events


@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_only_what_had_no_outcome_is_handled_again(lab: Any, scope: str) -> None:
    """0 to 9 received, 2 and 4 unfinished: after a stop without a drain only 2 and 4 run again."""
    first = lab.recorder()
    first.block(lambda record: record.offset() in {2, 4})
    lab.produce(TEN)
    app = lab.start(first, scope=scope)
    wait_until(lambda: first.count == 8)
    stop_undrained(app)
    assert commit_of(lab)[0] == 2
    first.open_all()
    second, events = run_again(lab, 10, scope=scope)
    assert sorted(second.offsets()) == [2, 4]
    (restored,) = events.of(ProgressRestored)
    assert (restored.next_offset, restored.finished_offsets, restored.ranges) == (2, 6, 2)


def test_a_running_app_saves_it_at_the_commit_tick(lab: Any, recorder: Any) -> None:
    """No stop is needed: the next commit says it, and then nothing is sent while nothing changes."""
    gate = recorder.block(lambda record: record.offset() in {2, 4})
    lab.produce(TEN)
    app = lab.start(recorder)
    wait_until(lambda: recorder.count == 8)
    wait_until(lambda: finished_in(lab) == ((3, 4), (5, 10)))
    wait_until(lambda: inside(app).ledger.in_flight is None)
    lab.broker.track_requests()
    wait_until(lambda: len(app.snapshot().partitions) == 1)
    assert lab.broker.requests(ApiKey.OFFSET_COMMIT) == []
    gate.set()
    wait_until(lambda: (commit_of(lab)[0], finished_in(lab)) == (10, ()))


LATER = {"retry": ehkafka.Retry(attempts=5, first_s=60.0, max_s=60.0)}


@pytest.mark.parametrize(
    ("stage", "what", "options"),
    [
        ("threads", "fail ValueError 9", {"on_failure": ehkafka.Hold()}),
        ("threads", "fail ValueError 9", LATER),
        ("batches", "fail ValueError 9", LATER),
        *((kind, "wait never", {}) for kind in ("threads", "tasks", "batches", "processes")),
    ],
    indirect=["stage"],
)
def test_whatever_keeps_a_record_it_is_unfinished(stage: Stage, what: str, options: dict[str, Any]) -> None:
    """Held and waiting lanes, calls and batches that run: saved as unfinished."""
    lab = stage.lab
    stage.produce(("a", ""), ("stuck", what), ("b", ""), ("c", ""), ("stuck", ""), ("d", ""))
    app = stage.start(**options)
    wait_until(lambda: sorted(stage.offsets("end")) == [0, 2, 3, 5])
    wait_until(lambda: finished_in(lab) == ((2, 4), (5, 6)))
    assert commit_of(lab)[0] == 1
    app.stop(drain=False, timeout_s=0.3) if options else stop_undrained(app)
    assert (commit_of(lab)[0], finished_in(lab)) == (1, ((2, 4), (5, 6)))
    second, _ = run_again(lab, 6)
    assert second.offsets() == [1, 4]


def test_a_deferred_record_without_an_answer_is_unfinished(lab: Any, recorder: Any) -> None:
    """It is saved as such, and what is finished above it is not handled again."""
    recorder.work = lambda record: record.key() == b"stuck" and record.defer(deadline_s=60.0)
    lab.produce("a stuck b")
    app = lab.start(recorder)
    wait_until(lambda: finished_in(lab) == ((2, 3),))
    stop_undrained(app)
    second, _ = run_again(lab, 3)
    assert second.offsets() == [1]


def test_restored_records_are_counted_and_skip_no_age_limit_twice(lab: Any, recorder: Any) -> None:
    """The counter says how many were received and not handled; nothing else counts them."""
    from datetime import timedelta  # noqa: PLC0415 - for this test alone

    lab.produce(TEN)
    commit(lab, 0, metadata=text_of(0, (1, 9)))
    app = lab.start(recorder, max_age=timedelta(days=1))
    wait_until(lambda: lab.committed() == 10)
    snapshot = app.snapshot()
    app.stop()
    assert sorted(recorder.offsets()) == [0, 9]
    assert snapshot.counters["records_restored"] == 8
    assert "records_too_old" not in {name for name, count in snapshot.counters.items() if count}


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ("another program's", "not written by ehkafka"),
        ("ehk7.whatever", "a newer ehkafka"),
        ("ehk2.damaged", "damaged"),
        (text_of(7, (8, 9)), "another committed offset"),
    ],
)
def test_metadata_that_is_not_ours_is_ignored_with_one_warning(
    lab: Any, events: Any, metadata: str, words: str
) -> None:
    """Foreign, newer, damaged, of another position: all is handled, and it causes no commit."""
    lab.produce(TEN)
    commit(lab, 10, metadata=metadata)
    seen = lab.recorder()
    app = lab.app(seen)
    lab.broker.track_requests()
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    must_stay(lambda: not lab.broker.requests(ApiKey.OFFSET_COMMIT))
    lab.produce("a b")
    wait_until(lambda: (commit_of(lab)[0], finished_in(lab)) == (12, ()))
    app.stop()
    assert seen.offsets() == [10, 11]
    (ignored,) = events.of(ProgressIgnored)
    assert words in ignored.reason
    assert (ignored.partition, ignored.next_offset) == (T0, 10)


def test_retention_below_restored_ranges(lab: Any) -> None:
    """The committed record and a part of the ranges were deleted: a gap is reported, the rest holds."""
    lab.produce(TEN)
    commit(lab, 1, metadata=text_of(1, (3, 6), (8, 10)))
    lab.broker.delete_records("t", 0, 4)
    second, events = run_again(lab, 10, on_out_of_range="earliest")
    assert sorted(second.offsets()) == [6, 7]
    (gap,) = events.of(OffsetGap)
    assert (gap.wanted_offset, gap.resumed_at) == (1, 4)


def test_ranges_beyond_the_logs_end_are_of_another_log(lab: Any) -> None:
    """The topic was made anew and is shorter: its records are handled, whatever the commit says."""
    lab.produce(TEN)
    commit(lab, 0, metadata=text_of(0, (1, 11)))
    second, events = run_again(lab, 10)
    assert sorted(second.offsets()) == list(range(10))
    assert [event.reason for event in events.of(ProgressIgnored)] == [
        "the log ends below what it says is finished, so it is another log now"
    ]
