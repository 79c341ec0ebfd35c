"""What a task gives Spark, without a JVM: rows, also for what is not to be tried again; else errors."""

from __future__ import annotations

import gc
import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EndpointError, HandlerFailedError, OffsetGapError
from ehkafka.ranges.loss import Loss, partitions_gone
from ehkafka.ranges.places import Piece
from ehkafka.records import TopicPartition
from ehkafka.spark import versions
from ehkafka.spark.engine.signs import Signs
from ehkafka.spark.engine.tasks import reader
from ehkafka.spark.engine.tasks.results import PartitionResult, batch_result, failure_in, result_in
from ehkafka.spark.engine.tasks.shipment import pack, to_ship
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.readers import SourcePartition
from ehkafka.spark.source.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import ehkafka

pytest.importorskip("pyspark")


def job_of(folder: Path, packed: bytes = b"", *, ends_here: bool = False) -> reader.EngineJob:
    """Return the job of a run that has this folder."""
    return reader.EngineJob(f"job-of-{folder.name}", packed, Signs(folder), ends_here)


@pytest.fixture
def rows_of(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[PartitionResult]]:
    """Return what runs an app's task over a partition's records; `error` is what the broker ends it with."""
    monkeypatch.setattr("logging.basicConfig", lambda **_options: None)

    def rows(
        app: ehkafka.App,
        log: list[Any],
        error: Exception | None = None,
        *,
        wait: Callable[[], object] = lambda: None,
        is_packed: bool = True,
    ) -> list[PartitionResult]:
        def messages(*_arguments: object) -> Iterator[Any]:
            yield from lab.as_batches(log)
            wait()
            if error is not None:
                raise error

        monkeypatch.setattr(reader, "messages", messages)
        parts = lab.parts_of(app)
        if not is_packed:  # it refers to what cannot be sent
            monkeypatch.setattr(reader, "_shipped", lambda _job: to_ship(parts))
        job = job_of(tmp_path, pack(parts) if is_packed else b"")
        options = options_from({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
        task = SourcePartition((lab.piece_of(log),))
        batches = reader.EngineReader(options, job).read(task)
        return [result_in(row.as_py()) for batch in batches for row in batch.column(0)]

    return rows


def test_a_task_gives_a_row_for_each_partition(lab: Any, rows_of: Any) -> None:
    """Counts and the last record's place; nothing of a record."""
    app = lab.make_app()
    app.handler("t")(lambda record: None)
    rows = rows_of(app, lab.log_of(5))
    assert failure_in(rows) is None
    result = batch_result(rows)
    assert (result.counts["received"], result.counts["finished"]) == (5, 5)
    assert result.lasts["t", 0].offset == 4


def test_what_a_policy_has_stopped_is_a_row(lab: Any, rows_of: Any) -> None:
    """An error of the task would let Spark call its handlers again; the row tells it as it is."""
    app = lab.make_app()

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        if record.offset() == 3:
            raise LookupError("no such home")

    failure = failure_in(rows_of(app, lab.log_of(5)))
    assert type(failure) is HandlerFailedError
    assert "t[0]@3" in str(failure)
    assert f"Raised in {__file__}:" in str(failure)


def test_what_reading_meets_is_an_error_that_spark_may_try_again(lab: Any, rows_of: Any) -> None:
    """A broker that cannot be reached for a moment is no decision of a policy."""
    app = lab.make_app()
    app.handler("t")(lambda record: None)
    with pytest.raises(EndpointError, match="gone for a moment, try again"):
        rows_of(app, lab.log_of(5), EndpointError("gone for a moment,\ntry again"))


def test_a_policys_decision_counts_beside_the_brokers_error(lab: Any, rows_of: Any) -> None:
    """A handler that fails for good while its task fails anyway is not called again by Spark."""
    app, started = lab.make_app(), threading.Event()

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        started.set()
        time.sleep(0.2)  # reading fails meanwhile
        raise LookupError("no such home")

    rows = rows_of(app, lab.log_of(1), EndpointError("gone"), wait=started.wait, is_packed=False)
    assert type(failure_in(rows)) is HandlerFailedError


def test_a_failure_that_utf_8_cannot_say_is_a_row(lab: Any, rows_of: Any) -> None:
    """Half a surrogate pair in an error's text does not fail the task in another way."""
    app = lab.make_app()

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        raise ValueError("home \udc80")

    failure = failure_in(rows_of(app, lab.log_of(1)))
    assert type(failure) is HandlerFailedError
    assert "home \\udc80" in str(failure)


def test_what_the_log_has_no_more_is_a_row(lab: Any, rows_of: Any) -> None:
    """Retention gives nothing back: another attempt would call handlers again, and find the same gap."""
    app = lab.make_app()
    app.handler("t")(lambda record: None)
    failure = failure_in(rows_of(app, lab.log_of(5), OffsetGapError("t[0]: offsets 5 to 9 are gone")))
    assert type(failure) is OffsetGapError


def test_a_gap_is_reported_with_what_an_app_can_do_about_it(tmp_path: Path) -> None:
    """The options of a query mean nothing to an app: `failOnDataLoss` follows from `on_out_of_range`."""
    source = reader.engine_source(job_of(tmp_path))(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}
    )
    words = source.streamReader(schema=None).options.words  # type: ignore[arg-type]
    with pytest.raises(
        OffsetGapError, match=r"give the app on_out_of_range='earliest'.*ehkafka offsets reset"
    ):
        Loss(TopicPartition("t", 0), 3, 9, 5, 20).lost(words).settle(fail=True)
    with pytest.raises(OffsetGapError, match="new_checkpoint=True"):
        partitions_gone([TopicPartition("t", 0)], words).settle(fail=True)


@pytest.fixture
def hangs(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return what makes an app whose handler hangs at k0 and fails at k1; `can_end`: its process can end."""
    asked, go, started = [], threading.Event(), threading.Event()

    def make(*, can_end: bool) -> Any:
        def end(left: tuple[str, ...]) -> bool:
            asked.append(left)
            return can_end

        monkeypatch.setattr(reader, "end_process_after_task", end)
        app = lab.make_app(stop_s=0.1)

        @app.handler("t", workers=2)
        def handle(record: ehkafka.Record) -> None:
            if record.offset() == 0:
                started.set()
                go.wait(60.0)
            assert started.wait(60.0)
            raise LookupError("no such home")

        return app, asked

    yield make
    go.set()


def test_a_process_that_keeps_a_handler_ends_with_its_task(lab: Any, rows_of: Any, hangs: Any) -> None:
    """The row is given, and the process asked to end behind it: it must not take the next task."""
    app, asked = hangs(can_end=True)
    assert type(failure_in(rows_of(app, lab.log_of(2), is_packed=False))) is HandlerFailedError
    ((left,),) = asked
    assert left.startswith("ehkafka-handle-")


def test_a_process_that_cannot_end_behind_its_task_fails_it(lab: Any, rows_of: Any, hangs: Any) -> None:
    """Under an unknown daemon: Spark ends a worker whose task raises; order counts for more than a retry."""
    app, _ = hangs(can_end=False)
    with pytest.raises(HandlerFailedError, match=r"t\[0\]@1.*no such home"):
        rows_of(app, lab.log_of(2), is_packed=False)


def test_a_failed_task_lets_go_of_its_consumer_at_once(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads is closed with the task, not when Python's collector finds it: it would go on fetching."""
    app, closed = lab.make_app(), []

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        raise LookupError

    def messages(*_arguments: object) -> Iterator[Any]:
        try:
            while True:
                yield from lab.as_batches(lab.log_of(1))
        finally:
            closed.append(True)

    monkeypatch.setattr(reader, "_shipped", lambda _job: to_ship(lab.parts_of(app)))
    monkeypatch.setattr(reader, "messages", messages)
    options = options_from({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    gc.disable()
    try:
        partition = SourcePartition((Piece("t", 0, 0, 9),))
        rows = list(reader.EngineReader(options, job_of(tmp_path)).read(partition))
        assert len(rows) == 1
        assert closed == [True]
    finally:
        gc.enable()


class Planner:
    """An engine's reader as Spark's planning process has it, over a log of one partition."""

    def __init__(self, folder: Path, *, ends_here: bool) -> None:
        self.end = 9
        self.signs = Signs(folder)
        log = SimpleNamespace(
            words=options_from({"bootstrap": "127.0.0.1:1"}).words,
            topics=lambda: ("t",),
            reads=lambda topic: topic == "t",
            partitions=lambda: (TopicPartition("t", 0),),
            starts=lambda asked: dict.fromkeys(asked, 0),
            ends=lambda asked: dict.fromkeys(asked, self.end),
            identity=SimpleNamespace(
                begin=lambda _topics: None,
                first=dict,
                is_check_due=lambda: True,
                records=lambda _first, _then: ({}, {}),
            ),
        )
        given = {"subscribe": "t", "startingOffsets": '{"t": {"0": 5}}', "maxOffsetsPerTrigger": "3"}
        options = options_from({**given, "kafka.bootstrap.servers": "127.0.0.1:1"})
        self._reader = reader.EngineReader(options, job_of(folder, ends_here=ends_here))
        self._reader._stream = Stream(options, log)  # type: ignore[arg-type]
        self.at = self._reader.initialOffset()

    def batch(self) -> list[tuple[int, int]]:
        """Plan the next batch as Spark does; return the offsets that it reads. None of the next: no batch."""
        asked = (self.at, self._reader.getDefaultReadLimit()) if versions.gives_limits() else ()
        start, self.at = self.at, json.loads(json.dumps(self._reader.latestOffset(*asked)))
        tasks = self._reader.partitions(start, self.at)
        return [(piece.start, piece.end) for task in tasks for piece in task.pieces]


def test_a_stop_before_the_first_batch_leaves_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    """Spark plans batch 0 whatever it hears: its end says where the stream begins, and reads nothing."""
    planner = Planner(tmp_path, ends_here=False)
    planner.signs.stop.touch()
    assert [planner.batch(), planner.batch()] == [[], []]
    planner.signs.stop.unlink()
    assert planner.batch() == [(5, 8)]


def test_a_run_of_what_is_there_is_over_when_that_is_handled(tmp_path: Path) -> None:
    """By batches of the limit, up to where the log ended at the first look; the sign comes after the last.

    Spark's own trigger for it would be one batch before PySpark 4.2, with records left.
    """
    planner = Planner(tmp_path, ends_here=True)
    assert planner.batch() == [(5, 8)]
    planner.end = 20
    assert planner.batch() == [(8, 9)]
    assert not planner.signs.over.exists()
    assert planner.batch() == []
    assert planner.signs.over.exists()


def test_a_run_without_an_end_is_never_over(tmp_path: Path) -> None:
    """All that is there has been handled, and more may come."""
    planner = Planner(tmp_path, ends_here=False)
    assert [planner.batch() for _ in range(3)] == [[(5, 8)], [(8, 9)], []]
    assert not planner.signs.over.exists()
    planner.end = 10
    assert planner.batch() == [(9, 10)]
