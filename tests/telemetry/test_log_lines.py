from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import events
from ehkafka.records import TopicPartition
from ehkafka.telemetry.log_lines import fields
from tests.kit.events import event_kinds

if TYPE_CHECKING:
    from ehkafka.telemetry.log_lines import LogLines

READINGS_0 = TopicPartition("readings", 0)
READINGS_1 = TopicPartition("readings", 1)
ALERTS_0 = TopicPartition("alerts", 0)

# One of each kind, and what a reader must find in its line.
EXAMPLES: list[tuple[events.Event, list[str]]] = [
    (events.AppStarted("homes", ("readings", "alerts")), ["readings, alerts", "group homes"]),
    (events.AppCatchingUp(12_500, 1250.0, 3, 1), ["12,500 left in 3 partitions", "1,250 records/s", "10 s"]),
    (
        events.ActionTaken(
            "skip", "key", "readings/3@7", "the token, from ::1", True, "readings/3@7 skipped."
        ),
        ["By hand: readings/3@7 skipped.", "Asked for by the token, from ::1."],
    ),
    (
        events.ActionRefused("skip", "key", "home-7", "the token", "running", "Nothing was done: it runs."),
        ["skip of key home-7", "the token", "Nothing was done: it runs."],
    ),
    (events.HttpServing("http://127.0.0.1:8080", is_loopback=True), ["http://127.0.0.1:8080", "alone"]),
    (events.AppCaughtUp(3, 500, 2.0, is_standby=False), ["3 partitions", "500 records in 2 s"]),
    (
        events.HandlerReport(
            handler="store",
            topics=("readings",),
            partitions=4,
            records_per_s=4811.6,
            lag_records=310,
            oldest_s=0.4,
            waiting_keys=2,
        ),
        ["readings (store): 4,812 records/s, lag 310, oldest 0.4 s, 2 keys waiting."],
    ),
    (
        events.StateReport(
            why="SIGUSR1",
            state="running",
            partitions=4,
            lag_records=None,
            backlog_records=12,
            parked_records=3,
            busy_workers=1,
            lines="t[0]: lag unknown",
            stacks="worker\nwhere it is",
        ),
        ["State (SIGUSR1): running, 4 partitions, lag unknown, backlog 12, parked 3; 1 busy worker"],
    ),
    (events.GroupWatched("homes", 65.0), ["group homes", "65 s"]),
    (
        events.GroupReset("homes", ("readings",), 8, None),
        ["homes was reset", "8 partitions of readings."],
    ),
    (events.GroupReset("homes", ("readings",), 8, "june"), ["once under the name june"]),
    (
        events.SettingAdvice("metadata.max.age.ms", "200000", "Azure drops idle connections.", "the docs"),
        ["metadata.max.age.ms=200000", "Azure drops idle connections (the docs)"],
    ),
    (events.AppStopping("SIGTERM", drain="started", deadline_s=25.0), ["SIGTERM", "have started", "25 s"]),
    (events.Draining(12.3, 40), ["40 records", "12 s"]),
    (events.BatchesFinished(3, 6_000, 4.0, 500), ["3 batches", "6000 records", "(1500/s)", "500 left"]),
    (events.BatchesFinished(1, 1, 0.0, None), ["1 batch with 1 record in 0 s."]),
    (
        events.DropInDeviated("coalescing", "commits share a request"),
        ["commits share a request", "as_confluent={'coalescing'}"],
    ),
    (
        events.MarksMissing(READINGS_0, 7, 50_000, 30.0),
        ["readings[0] is paused", "50000 records", "offset 7", "30 s", "store_offsets(message)"],
    ),
    (
        events.OutputRefused(READINGS_0, 7, "alerts", 2, "INVALID_RECORD", None, "it is skipped"),
        ["readings[0]@7 to alerts", "attempt 2", "it is skipped. Nothing is committed"],
    ),
    (
        events.OutputRefused(READINGS_0, 7, "alerts", 2, "INVALID_RECORD", 1.0, ""),
        ["it is sent again in 1 s"],
    ),
    (
        events.OutputProducerReplaced("the id is unknown.", 2.0),
        ["replaced in 2 s", "the id is unknown. Outputs", "sent again, in their order"],
    ),
    (
        events.OutputKindsDiffer("alerts", "one", "JSON", "two", "bytes"),
        ["topic alerts", "one sends JSON", "two sends bytes", "topic of its own"],
    ),
    (
        events.OutputThrottled("alerts", "POLICY_VIOLATION: too much.", 2.0),
        ["alerts", "2 s", "no attempt", "POLICY_VIOLATION"],
    ),
    (
        events.MessageNotDelivered("audit", "MSG_TIMED_OUT: away."),
        ["app.producer", "audit", "MSG_TIMED_OUT: away."],
    ),
    (
        events.MessageProducerReplaced("the id is unknown.", 2.0),
        ["app.producer", "2 s", "the id is unknown", "sent again"],
    ),
    (events.MessageProblem("no token", 2.0), ["app.producer wait", "no token", "2 s"]),
    (events.OutputProblem("the broker is away", 2.0), ["Outputs wait", "the broker is away", "2 s"]),
    (
        events.TransactionAborted((READINGS_0,), 3, "ILLEGAL_GENERATION: rejoined.", 0.5),
        ["1 partition", "3 outputs", "0.5 s", "ILLEGAL_GENERATION", "sends the outputs again"],
    ),
    (events.TransactionProducerReplaced("it is fenced."), ["replaced: it is fenced.", "next transaction"]),
    (events.OutputsWait(3, 60.0), ["3 outputs were", "60 s", "their task waits"]),
    (
        events.DeadLetterProducerReplaced("the id is unknown.", 2.0),
        ["replaced in 2 s", "the id is unknown. Dead letters", "written again"],
    ),
    (
        events.DeadLetterProducerPlain("requires Apache Kafka broker version >= 0.11.0"),
        ["without a producer id", "requires Apache Kafka", "twice"],
    ),
    (
        events.RecordsLeft(870, 1, ("t[0]@3 key k (is held: ValueError)",), 140),
        ["870 records", "1 waiting key", "t[0]@3 key k", "140 records"],
    ),
    (events.AppStopped(4, 17), ["exit code 4", "17 records", "redelivered"]),
    (events.PartitionAssigned(READINGS_0, 3, "offset 17"), ["readings[0]", "epoch 3", "offset 17"]),
    (
        events.PartitionRevoked(READINGS_0, 3, 18, 1, "rebalance"),
        ["readings[0]", "18", "1 record ", "rebalance"],
    ),
    (events.PartitionLost(READINGS_0, 3, 5), ["readings[0]", "epoch 3", "5 records", "another member"]),
    (
        events.OffsetGap(READINGS_0, 3, 10, 12, lost_records=7, action="earliest", resumed_at=10),
        ["readings[0]@3", "is gone", "10 to 12", "7 records will not be read", "continuing at 10"],
    ),
    (
        events.OffsetGap(READINGS_0, 30, 0, 12, lost_records=0, action="stop", resumed_at=None),
        ["readings[0]@30", "18 beyond the end", "Nothing is skipped", "stopping"],
    ),
    (
        events.OffsetGap(READINGS_0, 11, 10, 12, lost_records=1, action="latest", resumed_at=12),
        ["readings[0]@11", "holds another record now", "1 record will not be read", "continuing at 12"],
    ),
    (
        events.LogReplaced(
            READINGS_0, 300, "the id was X and is Y", 0, 800, lost_records=0, action="earliest", resumed_at=0
        ),
        ["readings[0] has a new log", "position 300", "X and is Y", "0 to 800", "continuing at 0"],
    ),
    (
        events.LogReplaced(
            READINGS_0, 300, "the id was X", 0, 800, lost_records=800, action="latest", resumed_at=800
        ),
        ["800 records of it will not be read", "continuing at 800", "on_out_of_range=latest"],
    ),
    (
        events.LogReplaced(READINGS_0, 3, "X", 0, 8, lost_records=0, action="stop", resumed_at=None),
        ["Nothing of it is skipped", "stopping"],
    ),
    (
        events.RetentionNear(READINGS_0, 900, 700, 300, 400.0),
        ["readings[0]", "begins at 700", "200 records before", "900", "300 records at once", "about 400 s"],
    ),
    (
        events.UnreadDeleted(READINGS_0, 900, 1_000, 100),
        ["deleted 100 records of readings[0]", "was 900", "begins at 1000", "Resume"],
    ),
    (
        events.RecordsTooOld(READINGS_0, 5, 10, 16, oldest_age_s=7200.4, max_age_s=3600.0),
        ["5 records", "readings[0]", "10 to 16", "3600 s", "7200 s old"],
    ),
    (
        events.PartitionPaused(READINGS_0, 900, 4096, "home-7"),
        ["readings[0]", "900 records (4096 bytes)", "home-7"],
    ),
    (events.PartitionResumed(READINGS_0, 1.5), ["readings[0]", "1.5 s"]),
    (
        events.PartitionUnreadable(READINGS_0, 7, "_BAD_MSG", "_BAD_MSG (no): it is damaged", is_batch=True),
        ["batch at readings[0]@7", "is damaged.", "ehkafka offsets skip readings/0@7 --group …"],
    ),
    (events.PartitionReadable(READINGS_0, 7, 1.5), ["readings[0]", "offset 7", "1.5 s"]),
    (
        events.CommitAcknowledged(((READINGS_0, 18), (ALERTS_0, 4)), 0.012),
        ["readings[0] up to 18", "alerts[0] up to 4"],
    ),
    (events.MirrorWritten(((READINGS_0, 18), (ALERTS_0, 4)), 0.012), ["readings[0] up to 18", "0.012 s"]),
    (
        events.MirrorUnavailable("https://a/c", "https://a/c/x: 503 ServerBusy."),
        ["https://a/c/x: 503 ServerBusy", "committed as before"],
    ),
    (events.MirrorRecovered("https://a/c", 61.2, 7), ["https://a/c", "61 s", "7 failed attempts"]),
    (
        events.MirrorContested(READINGS_0, "https://a/c/x", "other-7", 40, 18),
        ["readings[0]", "other-7", "up to 40", "18", "https://a/c/x", "same group name"],
    ),
    (
        events.MirrorContested(READINGS_0, "https://a/c/x", "other-7", 40, None),
        ["nothing to write"],
    ),
    (
        events.MirrorForeign(READINGS_0, "https://a/c/x", "was written by another program"),
        ["https://a/c/x", "readings[0]", "another program"],
    ),
    (
        events.MirrorUsed(READINGS_0, 18, 1_700_000_000_000, "other-7", "the record at 17 is still of 2023"),
        ["readings[0]", "starts at 18", "other-7", "2023-11-14T22:13:20+00:00", "the record at 17"],
    ),
    (events.PartitionsWaiting((READINGS_0,), "503 ServerBusy."), ["readings[0] waits", "503 ServerBusy"]),
    (
        events.MirrorBehind((READINGS_0,), "503 ServerBusy."),
        ["readings[0]", "503 ServerBusy", "commits are right"],
    ),
    (
        events.CommitPaceBounded(0.2, 50, 1.0),
        ["1 s apart", "commit_interval_s=0.2 and commit_every_records=50"],
    ),
    (
        events.ProgressTruncated(READINGS_0, 3200, 6800, 1023),
        ["readings[0]", "6800 of the offsets", "1023 bytes", "3200 fit"],
    ),
    (
        events.ProgressRestored(READINGS_0, 2, 17, finished_offsets=500, ranges=3, source="the commit"),
        ["readings[0], epoch 2", "500 offsets above 17", "3 ranges", "according to the commit."],
    ),
    (
        events.ProgressIgnored(READINGS_0, 17, "it is damaged", "the commit"),
        ["readings[0]", "the commit says", "above 17", "it is damaged", "Nothing is skipped"],
    ),
    (
        events.Throttled("127.0.0.1:9092/1", 1.25),
        ["127.0.0.1:9092/1", "1.25 s", "throughput units"],
    ),
    (
        events.CommitFailed((READINGS_0, ALERTS_0), "NOT_COORDINATOR", retriable=True),
        ["readings[0], alerts[0]", "NOT_COORDINATOR", "next commit retries it"],
    ),
    (
        events.HandlerFailed(READINGS_0, 17, "home-7", 2, "ValueError: no unit", "retry in 0.4 s"),
        ["readings[0]@17", "home-7", "attempt 2", "ValueError: no unit", "retry in 0.4 s"],
    ),
    (
        events.RecordRetried(READINGS_0, 17, "home-7", 2, "ValueError: no unit", 0.4),
        ["Attempt 2", "readings[0]@17", "home-7", "ValueError: no unit", "0.4 s"],
    ),
    (
        events.BatchRaised("store", 500, "OSError: disk full", 250),
        ["store raised for 500 records", "OSError: disk full", "at most 250 at a time"],
    ),
    (
        events.RecordSkipped(READINGS_0, 17, "home-7", 1, "a test record"),
        ["readings[0]@17", "home-7", "attempt 1", "a test record"],
    ),
    (events.RecordDeadLettered(READINGS_0, 17, "home-7", "dead"), ["readings[0]@17", "home-7", "dead"]),
    (
        events.DeadLetterFailed(READINGS_0, 17, "home-7", "dead", "_TRANSPORT (down)", 0.5),
        ["readings[0]@17", "home-7", "dead", "_TRANSPORT", "retry is in 0.5 s"],
    ),
    (
        events.ParkedBudgetFull(READINGS_0, 900, 9_000, "home-7", "pause_partition"),
        ["readings[0]", "900 records", "9000 bytes", "home-7", "paused"],
    ),
    (
        events.DeferredAnswerDropped(READINGS_0, 17, "home-1", 2, "its deadline had passed"),
        ["readings[0]@17", "home-1", "attempt 2: its deadline had passed."],
    ),
    (
        events.AttemptOverdue(READINGS_0, 17, "home-1", 2, "store", 31.26, 30.0, "File handler.py, line 3"),
        [
            "ehkafka offsets skip readings/0@17 --group …",
            "readings[0]@17",
            "home-1",
            "Attempt 2",
            "31.3 s",
            "store",
            "longer than deadline_s=30",
            "cannot be stopped",
        ],
    ),
    (events.HandlerResized("store", 4, 9), ["store", "9 workers now", "4 before."]),
    (events.HandlerResized("store", 4, 9, is_auto=True), ["9 workers now", '(workers="auto").']),
    (events.StaleResult(READINGS_0, 3, 2), ["readings[0]", "reassigned", "2 records", "raise drain_s"]),
    (
        events.ConnectionProblem("_TRANSPORT", "broker down", fatal=False),
        ["problem, _TRANSPORT: broker down", "check"],
    ),
    (
        events.ConnectionProblem("_RESOLVE", "_RESOLVE (no such host): check it", fatal=False),
        ["problem: _RESOLVE (no such host)"],
    ),
    (events.CredentialRotated("file /run/key"), ["/run/key", "next authentication"]),
    (
        events.CredentialUnusable("file /run/key", "file /run/key: it is empty", 3),
        ["/run/key: it is empty", "3 failed reads", "old one stays"],
    ),
    (
        events.TokenRefreshed("home.servicebus.windows.net", 3599.6, 0.31, 2),
        ["home.servicebus.windows.net", "0.31 s", "3600 s", "after 2 failed attempts"],
    ),
    (
        events.TokenRefreshFailed("home.servicebus.windows.net", 1, "ServiceError (no)", 240.0, 2.0),
        ["after a failed attempt", "ServiceError (no)", "another 240 s", "2 s"],
    ),
    (
        events.TokenRefreshFailed("home.servicebus.windows.net", 3, "ServiceError (no)", 0.0, 1.5),
        ["3 failed attempts in a row", "No token is valid now", "1.5 s"],
    ),
    (
        events.ClientLogged(logging.WARNING, "MAXPOLL: limit hit"),
        ["librdkafka, warning", "MAXPOLL: limit hit"],
    ),
    (
        events.WorkersLogNothing("ehkafka-decode"),
        ["ehkafka-decode", "below WARNING", "on_worker_start", "logging.basicConfig"],
    ),
    (events.UserCodeFailed("on_assigned", "KeyError: 'unit'"), ["on_assigned", "KeyError: 'unit'"]),
    (
        events.UserCodeHangs("open (opening readings[0])", 5.0),
        ["open (opening readings[0])", "5 s", "keep working"],
    ),
    (events.UserCodeLeft(("closing readings[0]", "ehkafka-handle-3")), ["closing readings[0]", "stop_s"]),
    (
        events.WorkerProcessDied("ehkafka-handle", 77, "signal SIGKILL", was_running=True),
        ["77 of ehkafka-handle", "signal SIGKILL", "counts as failed", "A new process"],
    ),
    (events.MembersStarting(4, "homes"), ["4 members", "group homes"]),
    (events.MembersAdvice("3 of 7 members get no partition."), ["3 of 7 members get no partition."]),
    (events.MemberReady(2, 4711, 1, 0.5), ["Member 2 (process 4711)", "after 0.5 s with 1 partition."]),
    (events.MemberDone(2), ["Member 2 has caught up"]),
    (events.MemberEnded(2, "signal SIGKILL", 0.4), ["Member 2 ended (signal SIGKILL)", "in 0.4 s"]),
    (events.MemberLoops(2, 5, "exit code 70."), ["Member 2 has ended 5 times", "exit code 70. Look"]),
    (events.MemberHung(2, 4711, 30.0, "no answer"), ["Member 2 (process 4711)", "for 30 s (no answer)"]),
    (events.MembersReplacing(4, "SIGHUP"), ["Replacing 4 members", "(SIGHUP)"]),
    (events.MembersReplaced(4, 12.0), ["Replaced 4 members in 12 s"]),
    (events.StuckReport(61.0, ("readings[0]@17",), "File handler.py, line 3"), ["61 s", "readings[0]@17"]),
]


def test_every_kind_of_event_has_a_sentence_and_an_example() -> None:
    """No event is logged as its repr: each class of the catalogue has its own sentence."""
    assert {type(event) for event, _ in EXAMPLES} == event_kinds()
    assert all(kind.sentence is not events.Event.sentence for kind in event_kinds())


@pytest.mark.parametrize(("event", "parts"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_sentence_names_what_its_reader_needs(event: events.Event, parts: list[str]) -> None:
    """Topic, partition, offset, key and next step are in one line that ends as a sentence does."""
    line = event.sentence()

    assert [part for part in parts if part not in line] == []
    assert line.endswith(".")
    assert ".." not in line
    assert "\n" not in line


@pytest.mark.parametrize("event", [event for event, _ in EXAMPLES], ids=lambda value: type(value).__name__)
def test_the_fields_reach_a_structured_logger(event: events.Event, lines: LogLines, logged: Any) -> None:
    """Logging takes every field (none has a name of its own) and they survive JSON."""
    lines.write(event)
    lines.write_owed()

    [record] = logged.records
    named = fields(event)
    assert record.levelno == event.level
    assert named["event"] == type(event).__name__
    assert json.loads(json.dumps(named)) == {name: vars(record)[name] for name in named}


def test_a_partition_becomes_topic_and_partition() -> None:
    """Structured logs can be filtered by topic and by partition number."""
    assert fields(events.StaleResult(READINGS_1, 3, 2)) == {
        "event": "StaleResult",
        "topic": "readings",
        "partition": 1,
        "epoch": 3,
        "records": 2,
    }


def test_a_kind_without_a_sentence_is_refused() -> None:
    """A missing sentence is an error, not a repr in the log."""
    with pytest.raises(NotImplementedError, match="Event has no sentence"):
        events.Event().sentence()


def test_text_from_outside_cannot_forge_a_line() -> None:
    """Line ends and terminal sequences of a key or error are shown as escapes, and it has an end."""
    hostile = events.HandlerFailed(
        READINGS_0, 1, "k\x1b[2J\r\nERROR root: all is lost.", 1, "x" * 5_000, "hold"
    )

    line = hostile.sentence()

    assert r"k\x1b[2J\r\nERROR root: all is lost., attempt" in line
    assert line.isprintable()
    assert len(line) < 1_000


def test_many_partitions_are_named_in_part() -> None:
    """A commit of hundreds of partitions is still a line."""
    many = events.CommitAcknowledged(tuple((TopicPartition("t", n), n) for n in range(300)), 0.1)

    assert many.sentence().endswith("t[9] up to 9 and 290 more in 0.1 s.")


def test_the_stacks_of_a_stuck_report_follow_its_sentence(lines: LogLines, logged: Any) -> None:
    """Who reads plain text needs the stacks there."""
    lines.write(events.StuckReport(61.0, (), "File handler.py, line 3"))

    assert logged.records[0].getMessage().endswith(".\nFile handler.py, line 3")


def test_the_stack_of_an_overdue_attempt_follows_its_sentence(lines: LogLines, logged: Any) -> None:
    """Where the thread hangs is what the line is for."""
    what = (READINGS_0, 17, "home-1", 2, "store", 31.3, 30.0)
    lines.write(events.AttemptOverdue(*what, "File handler.py, line 3"))

    assert logged.records[0].getMessage().endswith("with --yes).\nFile handler.py, line 3")


def test_a_percent_sign_is_just_text(lines: LogLines, logged: Any) -> None:
    """The sentence is no format string."""
    lines.write(events.CommitFailed((READINGS_0,), "%s of %d", retriable=True))

    assert "%s of %d" in logged.records[0].getMessage()


def test_a_level_that_nobody_reads_costs_no_sentence(logged: Any, lines: LogLines) -> None:
    """Debug lines are off in production; an event without a sentence proves that none was made."""
    logged.logger.setLevel(logging.WARNING)

    lines.write(events.Event())

    assert logged.records == []
