"""Starts a streaming query so that it comes up on a busy machine, and reads all that is there if it is to.

On the caller's thread, with a classic session or by Spark Connect: it asks the query alone, no broker.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.spark import versions
from ehkafka.spark.engine.failures import failure_of, is_of_ours, is_too_late
from ehkafka.spark.source.lag import reported_offset
from ehkafka.spark.unread import FORMAT, log_unread_columns
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from ehkafka.records import TopicPartition

    # By the number of the source in the query: two may read the same partition.
    Places = dict[tuple[int, TopicPartition], int]

_LOG = logging.getLogger("ehkafka.spark")
STARTS_MAX = 6
"""How often a query is started whose planning process Spark gives up after ten seconds."""

CHECK_S = 0.1
# How Spark's words begin until it knows the end of a query's first batch, or that there is none.
_BEGINNING = ("Initializing", "Getting offsets", "Terminated")
_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


def start(writer: DataStreamWriter, path: str | None = None, *, tries: int = STARTS_MAX) -> StreamingQuery:
    """Start a query and return it once its first batch is planned; with AvailableNow, once it has ended.

    What ehkafka refuses is raised here, as its `EhkafkaError`. A query that Spark ends because its planning
    process took more than ten seconds to start is started again; after the last try `EngineError` is raised.

    With Trigger.AvailableNow it waits until the query has read up to where the logs ended at its start.
    Before Spark 4.2 that trigger is one batch, so the query is started again, with the same checkpoint, until
    it has: listeners see several runs. A failed run is returned; its `awaitTermination()` raises what failed.

    - `writer` (required): `df.writeStream…`, before its `start()`.
    - `path` (default `None`): what `writer.start(path)` takes, for sinks that write to a folder.
    - `tries` (default `6`): how often a query is started whose planning process was too slow, 1 or more.
    """
    query = _begun(writer, path, tries)
    log_unread_columns(writer)
    if not _is_available_now(writer, query):
        return query
    first = query
    ends: Places = {}
    while not _is_done(query, ends, is_first=query is first):
        query = _begun(writer, path, tries)
        if query.id != first.id:
            query.stop()
            raise ConfigurationError(
                "The query has no checkpointLocation, so each run would begin where the first run began. Give"
                " the writer a checkpointLocation, or leave maxOffsetsPerTrigger out."
            )
    return query


def log_start(attempt: int, tries: int) -> None:
    """Log that a query is started, and why it is started again."""
    if attempt == 1:
        _LOG.info("The query starts.")
    else:
        late = "Spark's planning process took more than ten seconds to start"
        _LOG.info("The query starts, attempt %d of %d: %s.", attempt, tries, late)


def _begun(writer: DataStreamWriter, path: str | None, tries: int) -> StreamingQuery:
    """Return a query that is past the planning of its first batch. Raises what ehkafka refuses."""
    for attempt in range(1, tries + 1):
        log_start(attempt, tries)
        query = writer.start() if path is None else writer.start(path)
        _check(writer, query)
        _wait(query, for_its_end=False)
        error = query.exception()
        if error is None or query.lastProgress is not None:
            break
        if is_too_late(str(error)) and attempt < tries:
            continue
        if is_of_ours(str(error)) or is_too_late(str(error)):
            raise failure_of(str(error)) from None
        break
    return query


def _wait(query: StreamingQuery, *, for_its_end: bool) -> None:
    """Wait until a query has ended or, earlier, until its first batch is planned. Ctrl-C ends it."""
    try:
        while query.isActive:
            if not for_its_end and not str(query.status["message"]).startswith(_BEGINNING):
                return
            time.sleep(CHECK_S)
    except BaseException:
        query.stop()
        raise


def _is_done(query: StreamingQuery, ends: Places, *, is_first: bool) -> bool:
    """Wait for the end of a run; tell whether it was the last one.

    The first run that planned a batch fills `ends`. A batch of an earlier start that is repeated was not
    planned in this one, and tells nothing; only the first run can have it.
    """
    _wait(query, for_its_end=True)
    progress: Any = query.lastProgress
    if progress is None or query.exception() is not None:
        return True
    if "latestOffset" not in (progress["durationMs"] or {}):
        if is_first:
            return False
        if not ends:
            _LOG.warning(
                "This platform's progress of a query does not show whether a batch was planned"
                " (durationMs.latestOffset). So the query ends where the logs ended at its second run, not"
                " at its first one."
            )
    if not ends:
        ends |= _places(progress, "endOffset", "log_ends")
    at = _places(progress, "endOffset", "positions")
    left = sum(max(0, end - at.get(one, 0)) for one, end in ends.items())
    # Not by its rows: offsets of a compacted log or of transactions have none. A partition that is gone, or a
    # log that was recreated, may never reach its first end: then a batch that has read all is the last one.
    others = ("startOffset", "positions"), ("endOffset", "log_ends")
    if not left or at in (_places(progress, *other) for other in others):
        return True
    _LOG.info("The query's run ended after one batch, with %s left: it continues.", counted(left, "offset"))
    return False


def _places(progress: Mapping[str, Any], reported: str, which: str) -> Places:
    offsets = enumerate(reported_offset(one.get(reported)) for one in progress["sources"])
    return {
        (number, partition): at
        for number, offset in offsets
        if offset is not None
        for partition, at in getattr(offset, which).items()
    }


def _is_available_now(writer: Any, query: Any) -> bool:
    if (plan := getattr(writer, "_write_proto", None)) is not None:  # of Spark Connect
        return bool(plan.available_now)
    return bool(query._jsq.streamingQuery().trigger().toString() == "AvailableNowTrigger")  # noqa: SLF001


def _check(writer: Any, query: Any) -> None:
    """End a query whose session has a setting that it must not have, before its first batch."""
    session = getattr(writer, "_session", None) or writer._spark  # noqa: SLF001 - Connect's, or a classic one's
    if _is_set(session, _WRAPPER) and not versions.gives_limits() and _is_available_now(writer, query):
        query.stop()
        raise ConfigurationError(
            f"{_WRAPPER}=true would make the query read again from the beginning of its checkpoint."
            " Set this property to false: ehkafka.spark.start reads all records without it."
        )

    if _is_set(session, "spark.speculation") and _sink_of(writer, query) == FORMAT:
        query.stop()
        raise ConfigurationError(
            "spark.speculation=true would let two attempts of a task write the same rows, in no order. Set it"
            " to false where the session begins."
        )


def _sink_of(writer: Any, query: Any) -> str:
    """Return the format that a query writes to; nothing for a sink of Spark's own."""
    if (plan := getattr(writer, "_write_proto", None)) is not None:
        return str(plan.format)
    sink = query._jsq.streamingQuery().sink()  # noqa: SLF001
    return str(sink.name()) if sink.getClass().getSimpleName() == "PythonTable" else ""


def _is_set(session: Any, name: str) -> bool:
    return str(session.conf.get(name, "false")).lower() == "true"
