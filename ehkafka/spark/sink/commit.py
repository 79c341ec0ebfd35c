"""The driver's half: what all tasks have staged becomes visible, and the manifest says that it is complete.

Runs in a process that Spark's driver starts for each commit, on its one thread; the commits of blobs run on
a few threads of its own. A driver may die between any two requests: a batch without a manifest is replayed
by Spark, staged anew and committed over what is there; a batch with one is left alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.spark.sink.container import opened
from ehkafka.spark.sink.manifest import manifest, marker, query_of
from ehkafka.spark.sink.names import batch_folder, manifest_blob, marker_blob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.spark.sink.container import SinkContainer
    from ehkafka.spark.sink.message import Staged
    from ehkafka.spark.sink.options import SinkOptions

COMMITS_AT_ONCE = 8


def commit(options: SinkOptions, messages: Sequence[Staged | None], batch: int) -> None:
    """Make a batch visible. Raises `EhkafkaError`; Spark then fails the query and replays the batch."""
    reported = sorted((each for each in messages if each is not None), key=lambda each: each.partition)
    if not reported:
        return  # a batch without tasks has no rows either
    query = _query(reported, batch)
    container = opened(options.place)
    _claim(container, options.path, query)
    present = set(container.names(batch_folder(options.path, batch)))
    complete = manifest_blob(options.path, batch)
    if complete in present:
        return  # an earlier driver did it all, and died before Spark noted that
    staged = [each for each in reported if each.blocks]
    _commit_blobs(container, staged, options)
    # Of a driver that died in its commit, with more tasks than this one has.
    for name in sorted(present - {each.blob for each in staged}):
        container.delete(name)
    container.write(complete, manifest(batch, query, staged))


def _query(reported: Sequence[Staged], batch: int) -> str:
    found = {(each.query, each.batch) for each in reported}
    if len(found) != 1 or reported[0].batch != batch:
        raise EngineError(
            f"The tasks of batch {batch} got other numbers from Spark: {sorted(found)}. Nothing was "
            "committed. Please report this with the version of Spark"
        )
    return reported[0].query


def _claim(container: SinkContainer, path: str, query: str) -> None:
    """Make the path this query's, or refuse one that another query writes to."""
    name = marker_blob(path)
    found = container.read(name)
    if found is None and not container.create(name, marker(query)):
        found = container.read(name)  # somebody else was quicker
    if found is not None and query_of(found) != query:
        raise ConfigurationError(
            f"The path {path!r} in {container.name} belongs to the streaming query {query_of(found)}, and "
            f"this is {query}: a query with a new checkpoint numbers its batches from 0 again, so what is "
            "there would be taken for written or be overwritten. Start with the first one's "
            f"checkpointLocation, or choose another path, or delete everything below {path!r}"
        )


def _commit_blobs(container: SinkContainer, staged: Sequence[Staged], options: SinkOptions) -> None:
    if not staged:
        return
    with ThreadPoolExecutor(COMMITS_AT_ONCE, "ehkafka-blob-commit") as pool:
        done = [pool.submit(container.commit, each.blob, each.blocks, options.ending) for each in staged]
    for each in done:
        each.result()
