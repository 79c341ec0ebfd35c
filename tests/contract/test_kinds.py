"""One contract for every kind of worker: the same promises, whatever runs the handler."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed, RecordDeadLettered, RecordRetried, RecordSkipped
from tests.contract.conftest import ends_with
from tests.contract.kinds import KINDS
from tests.contract.letters import TO_DEAD
from tests.kit.checker.checking_history import CheckingHistory
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.kinds import Stage

QUICK = ehkafka.Retry(attempts=3, first_s=0.01, jitter=0)


@contextmanager
def stopping(app: Any, **how: Any) -> Iterator[None]:
    """Stop an app on a thread of its own, whose end is waited for."""
    thread = threading.Thread(target=lambda: app.stop(**how))
    thread.start()
    yield
    thread.join()


# --- order ------------------------------------------------------------------------------------------


def test_each_key_runs_in_offset_order_and_never_overlaps(stage: Stage) -> None:
    """4,000 records, 200 keys, 4 partitions, random times: per key in order, each once, none lost."""
    rng = random.Random(1)
    reported = ["", "", "", "sleep 0", "sleep 0.001", "sleep 0.003"]
    for partition in range(4):
        records = [(f"k{rng.randrange(50)}", rng.choice(reported)) for _ in range(1_000)]
        stage.produce(*records, topic="t4", partition=partition)
    history = CheckingHistory()
    app = stage.start("t4", workers=6 if stage.kind.in_processes else 16, history=history)
    wait_until(lambda: app.snapshot().finished_records == 4_000, timeout_s=60.0)
    app.stop()
    verdict = history.verdict(complete=True)
    assert verdict.ok, verdict.report()
    last: defaultdict[tuple[int, str], int] = defaultdict(lambda: -1)
    open_calls: Counter[tuple[int, str]] = Counter()
    for line in stage.lines():
        lane = (line.partition, line.key)
        if line.word == "start":
            assert open_calls[lane] == 0
            assert last[lane] < line.offset
            last[lane] = line.offset
        open_calls[lane] += 1 if line.word == "start" else -1
    assert len(stage.lines("end")) == 4_000
    assert [stage.lab.committed(p, topic="t4") for p in range(4)] == [1_000] * 4


def test_a_waiting_key_holds_back_only_its_own_records(stage: Stage) -> None:
    """While A waits, B to Z finish and A's later records do not start."""
    alphabet = [chr(code) for code in range(ord("B"), ord("Z") + 1)]
    stage.produce(("A", "wait gate"), *((key, "") for key in alphabet), ("A", ""))
    stage.start()
    wait_until(lambda: len(stage.lines("end")) == len(alphabet))
    must_stay(lambda: stage.offsets("start", "A") == [0])
    stage.open()
    wait_until(lambda: stage.lab.committed() == len(alphabet) + 2)


def test_no_more_handlers_run_than_there_are_keys(stage: Stage) -> None:
    """3 keys and 5 workers: exactly 3 handlers run, and everything gets done."""
    stage.produce(*((key, "wait gate") for _ in range(10) for key in "abc"))
    stage.start(workers=5)
    wait_until(lambda: stage.running == 3)
    must_stay(lambda: stage.running == 3)
    stage.open()
    wait_until(lambda: len(stage.lines("end")) == 30)
    assert stage.running_max == 3


def test_never_more_handlers_run_than_workers(stage: Stage) -> None:
    """A flood of 300 keys and 4 workers: 4 run, never 5."""
    stage.produce(*((f"k{n}", "wait gate") for n in range(100)))
    stage.start(workers=4)
    wait_until(lambda: stage.running == 4)
    stage.produce(*((f"k{n}", "sleep 0.001") for n in range(100, 300)))
    must_stay(lambda: stage.running == 4, for_s=0.2)
    stage.open()
    wait_until(lambda: len(stage.lines("end")) == 300)
    assert stage.running_max == 4


# --- commits and stops --------------------------------------------------------------------------------


def test_a_commit_never_passes_an_unfinished_record(stage: Stage) -> None:
    """Offset 0 in flight, 1 to 9 finished: committed stays 0; then it is 10 at once."""
    stage.produce(("a", "wait gate"), *((f"k{n}", "") for n in range(9)))
    stage.start()
    wait_until(lambda: len(stage.lines("end")) == 9)
    must_stay(lambda: stage.lab.committed() in (None, 0))
    stage.open()
    wait_until(lambda: stage.lab.committed() == 10)


def test_a_drain_ends_all_and_a_restart_of_the_app_repeats_nothing(stage: Stage) -> None:
    """What runs and what is queued ends and is committed; the same app starts again after it."""
    stage.produce(*((f"k{n % 4}", "wait gate") for n in range(8)))
    app = stage.start(workers=2)
    wait_until(lambda: app.snapshot().received_records == 8 and stage.running == 2)
    with stopping(app, drain="all"):
        wait_until(lambda: app.state == "stopping")
        stage.open()
    assert stage.lab.committed() == 8
    stage.produce(("e", ""))
    app.start()
    wait_until(lambda: len(stage.lines("end")) == 9)
    app.stop()
    assert sorted(stage.offsets("start")) == list(range(9))


def test_without_drain_running_work_ends_and_queued_work_never_starts(stage: Stage) -> None:
    """What runs ends and is committed, what is queued is neither started nor committed."""
    stage.produce(*((key, "wait gate") for key in "ababab"))
    app = stage.start(workers=2)
    wait_until(lambda: app.snapshot().received_records == 6 and stage.running == 2)
    with stopping(app, drain=False):
        wait_until(lambda: app.snapshot().backlog_records == 2)
        stage.open()
    assert sorted(stage.offsets("start")) == [0, 1]
    assert stage.lab.committed() == 2
    assert app.snapshot().returned_records == 4


def test_a_handler_that_never_ends_cannot_hold_the_stop_beyond_its_deadline(stage: Stage) -> None:
    """stop(timeout_s=1) ends within a second more, names the record, commits what it may."""
    stage.produce(("a", ""), ("never", "wait never"), ("b", ""), ("never", ""))
    app = stage.start()
    wait_until(lambda: len(stage.lines("end")) == 2 and stage.running == 1)
    began_s, watched_s = time.monotonic(), unstolen_s()
    with pytest.raises(ehkafka.errors.UnfinishedError, match=r"t\[0\]@1 key never") as caught:
        app.stop(timeout_s=1.0)
    assert time.monotonic() - began_s >= 1.0
    assert unstolen_s() - watched_s < 2.0
    assert caught.value.exit_code == 4
    assert stage.lab.committed() == 1
    # A task can clean up.
    is_cancelled = stage.name in ("tasks", "callers_loop")
    assert [line.word for line in stage.lines(key="never")] == ["start", *["raise"] * is_cancelled]


# --- failures -----------------------------------------------------------------------------------------


def test_by_default_a_record_that_fails_stops_the_app(stage: Stage) -> None:
    """The error names handler, record, cause and next step; nothing at or above it is committed."""
    stage.produce(("a", ""), ("b", "fail ValueError 99"), ("c", ""))
    app = stage.start()
    words = r"failed at t\[0\]@1, key b, attempt 1.*ValueError: no luck with 1.*Fix the handler or the record"
    error = ends_with(app, ehkafka.errors.HandlerFailedError, words)
    assert error.exit_code == 1
    assert stage.lab.committed() in (None, 0, 1)
    assert not app.health()


def test_a_held_record_is_never_passed_and_other_keys_go_on(stage: Stage, events: Any) -> None:
    """Hold: the failed record's followers wait, the others finish, health is red and says why."""
    stage.produce(("a", ""), ("b", "fail ValueError 99"), ("c", ""), ("b", ""), ("d", ""))
    app = stage.start(on_failure=ehkafka.Hold())
    wait_until(lambda: sorted(stage.offsets("end")) == [0, 2, 4])
    wait_until(lambda: stage.lab.committed() == 1 and not app.health())
    stage.produce(("e", ""), ("b", ""))
    wait_until(lambda: 5 in stage.offsets("end"))
    must_stay(lambda: stage.offsets("start", "b") == [1])
    (reason,) = app.health().reasons
    assert reason == "t[0]@1, key b is on hold after 1 attempt: ValueError: no luck with 1."
    assert app.snapshot().partitions[0].parked_records == 3
    assert [(one.offset, one.key, one.attempt) for one in events.of(HandlerFailed)] == [(1, "b", 1)]
    began_s = unstolen_s()
    app.stop()
    assert unstolen_s() - began_s < 1.5
    assert stage.lab.committed() == 1


def test_a_record_that_waits_for_its_retry_holds_neither_worker_nor_other_keys(stage: Stage) -> None:
    """One worker: the others finish during the wait; the key goes on in order, attempts counted."""
    stage.produce(("a", "fail ValueError 2"), ("a", ""), ("b", ""), ("c", ""))
    stage.start(workers=1, retry=ehkafka.Retry(attempts=3, first_s=0.3, jitter=0.0, factor=1.0))
    wait_until(lambda: stage.lab.committed() == 4)
    starts = [(line.offset, line.attempt) for line in stage.lines("start", "a")]
    assert starts == [(0, 1), (0, 2), (0, 3), (1, 1)]
    ends = stage.offsets("end")
    assert max(ends.index(2), ends.index(3)) < ends.index(0)


# What the first record does, with which options; how often it is called, and what becomes of it.
OUTCOMES: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "retried": ("ValueError 2", {"retry": QUICK}, 3, "finished"),
    "given up": ("ValueError 99", {"retry": QUICK, "on_failure": ehkafka.Skip()}, 3, "skipped"),
    "not of this kind": (
        "ValueError 99",
        {"retry": ehkafka.Retry(give_up_on=ValueError), "on_failure": ehkafka.Skip()},
        1,
        "skipped",
    ),
    "skips": ("SkipRecord 99", {"retry": QUICK, "on_failure": ehkafka.Hold()}, 1, "skipped"),
    "rejects": ("RejectRecord 99", {"retry": QUICK, "on_failure": ehkafka.Skip()}, 1, "skipped"),
    # The handler's own wish counts without a policy, and uses up no attempt.
    "asks for later": ("RetryLater 4", {}, 5, "finished"),
    "is late and fails": ("RetryLater 4", {"retry": ehkafka.Retry(attempts=2)}, 5, "finished"),
    "a letter": ("ValueError 99", {"retry": QUICK, "on_failure": TO_DEAD}, 3, "dead_lettered"),
    "a letter at once": ("RejectRecord 99", {"retry": QUICK, "on_failure": TO_DEAD}, 1, "dead_lettered"),
}  # fmt: skip


@pytest.mark.parametrize("stage", KINDS, indirect=True)
@pytest.mark.parametrize("what", OUTCOMES)
def test_what_a_handler_raises_decides_with_the_policy(stage: Stage, events: Any, what: str) -> None:
    """Attempts, outcome and events; its key's next record runs after it, and all is committed."""
    value, options, calls, outcome = OUTCOMES[what]
    stage.lab.broker.create_topic("dead", 1)
    stage.produce(("a", f"fail {value}"), ("a", ""), ("b", ""))
    app = stage.start(**options)
    wait_until(lambda: stage.lab.committed() == 3)
    app.stop()
    assert stage.offsets("start", "a") == [0] * calls + [1]
    if stage.name != "raw":  # confluent's message does not know its attempt
        assert [line.attempt for line in stage.lines("start", "a")] == [*range(1, calls + 1), 1]
    snapshot = app.snapshot()
    counted = {
        name: getattr(snapshot, f"{name}_records") for name in ("finished", "skipped", "dead_lettered")
    }
    assert counted == {"finished": 2, "skipped": 0, "dead_lettered": 0} | {
        outcome: 1 + 2 * (outcome == "finished")
    }
    assert [one.attempt for one in events.of(RecordRetried)] == list(range(1, calls))
    assert [one.offset for one in events.of(RecordSkipped)] == [0] * (outcome == "skipped")
    assert [one.offset for one in events.of(RecordDeadLettered)] == [0] * (outcome == "dead_lettered")


@pytest.mark.parametrize(
    ("error", "policy"),
    [
        ("KeyboardInterrupt", ehkafka.Skip()),
        ("SystemExit", TO_DEAD),
        ("MemoryError", ehkafka.Hold()),
        # Nothing of ours has cancelled it.
        ("CancelledError", ehkafka.Skip()),
    ],
)
def test_an_error_that_says_nothing_about_the_record_stops_the_app(
    stage: Stage, events: Any, error: str, policy: Any
) -> None:
    """Neither policy nor on_error decides it: no second call, no letter, no commit of the record."""
    stage.lab.broker.create_topic("dead", 1)
    stage.produce(("a", f"fail {error} 99"))
    app = stage.app(on_failure=policy, retry=QUICK)
    app.on_error(lambda *_arguments: "continue")
    app.start()
    ends_with(app, ehkafka.errors.HandlerFailedError, rf"t\[0\]@0, key a, .*{error}: no luck")
    assert stage.offsets("start") == [0]
    assert events.of(RecordDeadLettered) == []
    assert stage.lab.committed() in (None, 0)


def test_an_on_worker_start_that_raises_keeps_the_app_from_starting(stage: Stage) -> None:
    """Its error reaches the caller, and no record is handled."""
    stage.produce(("a", ""))
    app = stage.app()
    app.on_worker_start(refuse_to_start)
    with pytest.raises(ConnectionError, match="no pool"):
        app.start()
    assert app.state == "stopped"
    assert stage.lines() == []


def refuse_to_start() -> None:
    """Fail as a worker's set-up."""
    raise ConnectionError("no pool")
