"""What a task gives Spark, without a JVM: rows, also for what is not to be tried again; else errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EndpointError, HandlerFailedError
from ehkafka.records import TopicPartition
from ehkafka.spark.engine import reader
from ehkafka.spark.engine.results import batch_result, failure_in
from ehkafka.spark.engine.shipment import Shipment, pack
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.partition import SourcePartition
from ehkafka.spark.source.planning import Piece
from ehkafka.spark.source.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import ehkafka

pytest.importorskip("pyspark")


@pytest.fixture
def rows_of(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Return what runs an app's task over a partition's records; `error` is what the broker ends it with."""
    monkeypatch.setattr("logging.basicConfig", lambda **_options: None)

    def rows(app: ehkafka.App, log: list[Any], error: Exception | None = None) -> list[dict[str, Any]]:
        def messages(*_arguments: object) -> Iterator[Any]:
            yield from lab.as_batches(log)
            if error is not None:
                raise error

        monkeypatch.setattr(reader, "messages", messages)
        job = reader.EngineJob(f"job-of-{tmp_path.name}", pack(Shipment.of(lab.parts_of(app))), "stop")
        options = options_from({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
        task = SourcePartition((lab.piece_of(log),))
        return [row for batch in reader.EngineReader(options, job).read(task) for row in batch.to_pylist()]

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


def test_f1_what_a_policy_has_stopped_is_a_row(lab: Any, rows_of: Any) -> None:
    """F1: an error of the task would let Spark call its handlers again; the row tells it as it is."""
    app = lab.make_app()

    @app.handler("t")
    def handle(record: ehkafka.Record) -> None:
        if record.offset() == 3:
            raise LookupError("no such home")

    failure = failure_in(rows_of(app, lab.log_of(5)))
    assert type(failure) is HandlerFailedError
    assert "t[0]@3" in str(failure)
    assert f"Raised in {__file__}, line " in str(failure)


def test_what_reading_meets_is_an_error_that_spark_may_try_again(lab: Any, rows_of: Any) -> None:
    """A broker that cannot be reached for a moment is no decision of a policy."""
    app = lab.make_app()
    app.handler("t")(lambda record: None)
    with pytest.raises(EndpointError, match="gone for a moment, try again"):
        rows_of(app, lab.log_of(5), EndpointError("gone for a moment,\ntry again"))


def test_a_stop_before_the_first_batch_leaves_a_checkpoint_that_goes_on(tmp_path: Path) -> None:
    """Spark plans batch 0 whatever it is told: its end says where the stream begins, and reads nothing."""
    stop_file, partition = tmp_path / "stop", TopicPartition("t", 0)
    given = {"subscribe": "t", "startingOffsets": '{"t": {"0": 5}}', "kafka.bootstrap.servers": "127.0.0.1:1"}
    log = SimpleNamespace(
        topics=lambda: ("t",),
        partitions=lambda: (partition,),
        starts=lambda asked: dict.fromkeys(asked, 0),
        ends=lambda asked: dict.fromkeys(asked, 9),
    )
    engine = reader.EngineReader(options_from(given), reader.EngineJob("job", b"", str(stop_file)))
    stream = engine._stream = Stream(engine.options, log)  # type: ignore[arg-type]
    stop_file.touch()
    start, limit = engine.initialOffset(), engine.getDefaultReadLimit()
    end = engine.latestOffset(start, limit)
    assert stream.pieces(start, end) == []
    assert engine.latestOffset(end, limit) == end
    stop_file.unlink()
    assert stream.pieces(end, engine.latestOffset(end, limit)) == [Piece("t", 0, 5, 9)]
