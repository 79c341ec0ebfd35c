"""What a plain query commits for its group, by readers as plain objects on an embedded broker: no JVM."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

pytest.importorskip("pyspark")

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError, GroupInUseError
from ehkafka.spark import versions
from ehkafka.spark.source import commits
from ehkafka.spark.source.early_stream_reader import EarlyStreamReader
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.spark.source.readers import SourceBatchReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing import EmbeddedBroker


class Query:
    """A run of a query of two partitions that commits for the group `g`, as Spark calls its reader."""

    def __init__(self, broker: EmbeddedBroker, options: Callable[..., SourceOptions], at: Any = None) -> None:
        self._broker = broker
        given = options(startingOffsets="earliest", groupId="g", commitOffsets="true")
        self.reader = EarlyStreamReader(given)
        self.at = at or self.reader.initialOffset()
        if at is not None:
            self.reader.partitions(at, at)

    def batch(self, *counts: int) -> dict[int, int | None]:
        """Produce so many records, plan the batch that has them, and return what the group has by then."""
        for partition, count in enumerate(counts):
            self._broker.produce("readings", [(b"k", b"v")] * count, partition=partition)
        end = json.loads(json.dumps(self.reader.latestOffset()))
        self.reader.partitions(self.at, end)
        self.at = end
        return self.committed

    @property
    def committed(self) -> dict[int, int | None]:
        """What the group has of each partition."""
        return self._broker.committed("g", "readings")


@pytest.fixture
def query(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Query]]:
    """Return what begins a run, each of which commits as often as Spark asks."""
    monkeypatch.setattr(commits, "COMMIT_INTERVAL_S", 0.0)
    made: list[Query] = []

    def begin(at: Any = None) -> Query:
        made.append(Query(broker, options, at))
        return made[-1]

    yield begin
    for one in made:
        one.reader.stop()


def test_what_is_finished_is_committed_and_nothing_that_is_planned(query: Callable[..., Query]) -> None:
    """When Spark asks for the next end, all up to its start is finished; a restart commits its last batch."""
    run = query()
    assert run.batch(5, 2) == {0: None, 1: None}
    assert run.batch(1, 0) == {0: 5, 1: 2}
    again = query(run.at)
    assert again.batch(7, 7) == {0: 6, 1: 2}
    assert again.batch() == {0: 13, 1: 9}


def test_topics_that_are_found_by_a_pattern_are_committed(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """No option names one."""
    given = options(startingOffsets="earliest", groupId="g", commitOffsets="true")
    run = Query(broker, lambda **_: replace(given, topics=(), pattern="read.*"))
    run.batch(5, 2)
    assert run.batch() == {0: 5, 1: 2}
    run.reader.stop()


def test_an_idle_query_has_committed_all(query: Callable[..., Query]) -> None:
    """Nothing new: what is left is committed before the answer."""
    run = query()
    run.batch(3, 0)
    run.batch(4, 0)
    run.batch()
    assert run.committed == {0: 7, 1: 0}


def test_the_last_batch_is_committed_before_a_run_of_what_is_there_ends(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """Spark asks once more after the last batch, and then ends the process: the pace does not count."""
    if not versions.gives_limits():
        pytest.skip("Spark does not ask again")
    from pyspark.sql.streaming.datasource import ReadMaxRows  # noqa: PLC0415 - since 4.2

    from ehkafka.spark.source.stream_reader import SourceStreamReader  # noqa: PLC0415 - since 4.2

    broker.produce("readings", [(b"k", b"v")] * 9, partition=0)
    reader = SourceStreamReader(options(startingOffsets="earliest", groupId="g", commitOffsets="true"))
    reader.prepareForTriggerAvailableNow()
    at, ends = reader.initialOffset(), list[Any]()
    while not ends or ends[-1] != at:
        at = ends[-1] if ends else at
        ends.append(reader.latestOffset(at, ReadMaxRows(3)))
    assert broker.committed("g", "readings") == {0: 9, 1: 0}
    reader.stop()


def test_a_recreated_topic_takes_its_commits_back(
    query: Callable[..., Query], broker: EmbeddedBroker
) -> None:
    """Where the query is, also where that is less than before; a late answer about the old log is none."""
    run = query()
    run.batch(9, 3)
    run.batch(1, 0)
    made: Any = run.reader._commits
    made.finished({"readings": {"0": 20, "1": 3}})
    assert made._ledger.in_flight
    made.finished({"readings": {"0": 4, "1": 3}})
    made.rest(is_last=True)
    assert run.committed == {0: 4, 1: 3}
    assert not made._commits.is_dirty


def test_a_partition_that_is_gone_is_committed_no_more(query: Callable[..., Query]) -> None:
    """A broker refuses it each time, as long as the query runs. One that comes back is another one."""
    run = query()
    run.batch(9, 3)
    run.batch(1, 0)
    made: Any = run.reader._commits
    made._commits.note(StreamOffset.from_json({"readings": {"0": 10, "1": 8}}), None)
    made._commits.note(StreamOffset.from_json({"readings": {"0": 11}}), None)
    made.rest(is_last=True)
    assert run.committed == {0: 11, 1: 3}
    made._commits.note(StreamOffset.from_json({"readings": {"0": 11, "1": 2}}), None)
    made.rest(is_last=True)
    assert run.committed == {0: 11, 1: 2}


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (KafkaError.UNKNOWN_MEMBER_ID, GroupInUseError, r"'g' on .* in use.*groupId of its own"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, EndpointError, "refuses commits of this app"),
    ],
    ids=["members", "denied"],
)
def test_a_commit_that_is_refused_ends_the_query_or_the_commits(
    query: Callable[..., Query],
    broker: EmbeddedBroker,
    caplog: pytest.LogCaptureFixture,
    code: int,
    error: type[EhkafkaError],
    text: str,
) -> None:
    """The first one is an error; after one that was stored, one line, and the query goes on without."""
    refused = query()
    refused.batch(5, 2)
    broker.fail_next(ApiKey.OFFSET_COMMIT, code)
    with pytest.raises(error, match=text):
        refused.batch(1, 1)
    run = query(refused.at)
    run.batch(1, 1)
    assert run.committed == {0: 5, 1: 2}
    broker.fail_next(ApiKey.OFFSET_COMMIT, code)
    for _ in range(3):
        run.batch(1, 1)
        run.batch()
    assert run.committed == {0: 5, 1: 2}
    (line,) = [one for one in caplog.messages if "commits nothing more in this run" in one]
    assert "'g'" in line or "refuses commits" in line


def test_a_commit_that_fails_for_a_moment_is_made_again(
    query: Callable[..., Query], broker: EmbeddedBroker
) -> None:
    """With the next batch; the query knows nothing of it."""
    run = query()
    run.batch(5, 2)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.REBALANCE_IN_PROGRESS)
    run.batch(1, 0)
    run.batch(1, 0)
    run.batch()
    assert run.committed == {0: 7, 1: 2}


def test_only_a_stream_with_a_group_commits(options: Callable[..., SourceOptions]) -> None:
    """A batch may be read again and again; and commits are some group's."""
    with pytest.raises(ConfigurationError, match=r"commitOffsets works only with spark\.readStream"):
        SourceBatchReader(options(groupId="g", commitOffsets="true"))
    with pytest.raises(
        ConfigurationError, match="commitOffsets needs a group for its commits: add the option groupId"
    ):
        options(commitOffsets="true")
