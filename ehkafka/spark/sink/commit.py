"""The driver's half: what all tasks have staged becomes visible, and the manifest says that it is complete.

Runs in a process that Spark's driver starts for each commit, on its one thread; the commits of blobs run on
a few threads of its own. A driver may die between any two requests: a batch without a manifest is replayed
by Spark, staged anew and committed over what is there; a batch with one is left alone.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.spark.sink.container import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.spark.sink.container import SinkContainer
    from ehkafka.spark.sink.data_source import Staged
    from ehkafka.spark.sink.options import SinkOptions

COMMITS_AT_ONCE = 8
# Of what a manifest and a marker say.
VERSION = 1


def commit(options: SinkOptions, messages: Sequence[Staged | None], batch: int) -> None:
    """Make a batch visible. Raises `EhkafkaError`; Spark then fails the query and replays the batch."""
    reported = sorted((each for each in messages if each is not None), key=lambda each: each.partition)
    if not reported:
        return  # a batch without tasks has no rows either
    query = _query(reported, batch)
    container = opened(options.place)
    _take_path(container, options, query)
    present = {blob.name for blob in container.list_blobs(options.folder(batch))}
    complete = options.manifest(batch)
    if complete in present:
        return  # an earlier driver did it all, and died before Spark noted that
    staged = [each for each in reported if each.blocks]
    _commit_blobs(container, staged, options)
    # Of a driver that died in its commit, with more tasks than this one has.
    for name in sorted(present - {each.blob for each in staged}):
        container.delete(name)
    container.replace(complete, _manifest(batch, query, staged))


def _query(reported: Sequence[Staged], batch: int) -> str:
    found = {(each.query, each.batch) for each in reported}
    if len(found) != 1 or reported[0].batch != batch:
        raise EngineError(
            f"The tasks of batch {batch} got different numbers from Spark: {sorted(found)}. Nothing was "
            "committed. Please report this with the version of Spark"
        )
    return reported[0].query


def _take_path(container: SinkContainer, options: SinkOptions, query: str) -> None:
    """Make the path this query's, or refuse one that another query writes to."""
    name = options.marker
    found = container.read(name)
    if found is None and not container.create(name, _json({"version": VERSION, "query": query})):
        found = container.read(name)  # another driver was quicker
    if found is not None and _query_of(found.body) != query:
        raise ConfigurationError(
            f"The path {options.path!r} in {container.name} belongs to the streaming query "
            f"{_query_of(found.body)}, but this is query {query}. A query with a new checkpoint numbers its "
            "batches from 0 again, so batches would be skipped or overwrite blobs of the first query. Use "
            "the first query's checkpointLocation, choose another path, or delete everything below "
            f"{options.path!r}"
        )


def _commit_blobs(container: SinkContainer, staged: Sequence[Staged], options: SinkOptions) -> None:
    if not staged:
        return
    with ThreadPoolExecutor(COMMITS_AT_ONCE, "ehkafka-blob-commit") as pool:
        done = [pool.submit(container.commit, each.blob, each.blocks, options.ending) for each in staged]
    for each in done:
        each.result()


def _manifest(batch: int, query: str, staged: Sequence[Staged]) -> bytes:
    """Return the manifest of a complete batch: its blobs in the order of their partitions."""
    blobs = [{"name": each.blob, "rows": each.rows, "bytes": each.size_bytes} for each in staged]
    rows = sum(each.rows for each in staged)
    return _json({"version": VERSION, "batch": batch, "query": query, "rows": rows, "blobs": blobs})


def _query_of(body: bytes) -> str | None:
    """Return the query that a marker or manifest names; None when it is none of ours."""
    try:
        found = json.loads(body)["query"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
