"""Options: what is taken, and what is refused by name with the next step."""

from __future__ import annotations

import pickle

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.ranges.places import AtGroup, AtOffsets, AtTime, AtWord
from ehkafka.records import TopicPartition
from ehkafka.spark.source.options import options_from

HERE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "readings"}
P0, P1 = TopicPartition("readings", 0), TopicPartition("readings", 1)


def test_the_defaults_are_the_jvm_connectors() -> None:
    """Without options: its columns, no headers, loss of data fails, each partition a task."""
    options = options_from(HERE)
    assert options.topics == ("readings",)
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.fail_on_data_loss
    assert (options.start, options.end, options.limit_records, options.tasks) == (None, None, None, None)
    assert options.timeout_s == 120


def test_names_are_taken_in_any_case() -> None:
    """Spark hands over names in small letters."""
    given = {name.lower(): value for name, value in HERE.items()}
    options = options_from({**given, "maxoffsetspertrigger": "10", "INCLUDEHEADERS": "True"})
    assert options.limit_records == 10
    assert options.columns[-1] == "headers"


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"startingOffsets": "Earliest"}, AtWord("earliest")),
        (
            {"startingOffsets": '{"readings": {"1": -1, "0": 23}}'},
            AtOffsets(((P0, 23), (P1, -1))),
        ),
        (
            {"startingOffsets": '{"readings": {"0": 23}}', "startingOffsetsUnnamed": "Latest"},
            AtOffsets(((P0, 23),), "latest"),
        ),
        ({"startingTimestamp": "1767225600000"}, AtTime(1_767_225_600_000)),
        ({"startingTimestamp": "2026-01-01T00:00:00Z"}, AtTime(1_767_225_600_000)),
        ({"startingTimestamp": "2026-01-01 05:30+05:30"}, AtTime(1_767_225_600_000)),
        ({"startingTimestamp": "2026-01-01T00:00:00.000001Z"}, AtTime(1_767_225_600_001)),
        (
            {"startingOffsetsByTimestamp": '{"readings": {"0": "2026-01-01T00:00:00Z", "1": 5}}'},
            AtTime(by_partition=((P0, 1_767_225_600_000), (P1, 5))),
        ),
        (
            {
                "startingOffsetsByTimestamp": '{"readings": {"0": 5}}',
                "startingOffsetsByTimestampStrategy": "latest",
            },
            AtTime(by_partition=((P0, 5),), after_last="latest"),
        ),
        (
            {"startingOffsets": "group", "groupId": "home"},
            AtGroup("home", AtWord("earliest")),
        ),
        (
            {"startingOffsets": "group", "kafka.group.id": "home", "startingOffsetsWithoutCommit": "fail"},
            AtGroup("home", None),
        ),
    ],
)
def test_starts_are_read(given: dict[str, str], start: object) -> None:
    """Every way to begin that the JVM connector has, and a group's commits."""
    assert options_from({**HERE, **given}).start == start


def test_options_are_pickled_and_compared() -> None:
    """Options travel to tasks, where they are the key of a kept consumer."""
    options = options_from({**HERE, "kafka.client.id": "here"})
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(pickle.loads(pickle.dumps(options.endpoint))) == hash(options.endpoint)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"startingOfsets": "latest"}, "did you mean startingOffsets?"),
        (
            {"path": "/x"},
            r"no option 'path'; load\(\) takes no path: name the topics with subscribe\.",
        ),
        ({"subscribePattern": "r.*"}, "subscribe and subscribePattern exclude each other"),
        ({"minPartitions": "8"}, "lose its order"),
        ({"maxRecordsPerPartition": "8"}, "lose its order"),
        ({"assign": '{"readings": [0]}'}, "subscribe and assign exclude each other"),
        ({"assign": '{"readings": []}'}, "give the partitions' numbers"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "contradict each other"),
        ({"endingOffsets": "latest", "endingTimestamp": "1"}, "contradict each other"),
        ({"endingOffsets": "earliest"}, "reads nothing"),
        ({"startingOffsets": "group"}, "add the option groupId"),
        ({"startingOffsets": "sometimes"}, "give earliest, latest, group or JSON"),
        ({"startingOffsets": "{"}, "give JSON"),
        ({"startingOffsets": '{"readings": {"0": -3}}'}, "number for each partition"),
        ({"startingOffsets": '{"readings": {"0": -100}}'}, "number for each partition, -2 or more"),
        ({"startingOffsets": '{"readings": {"0": 1e400}}'}, "Option startingOffsets.*number for each"),
        ({"startingOffsets": '{"readings": {"0": 9223372036854775808}}'}, "number for each partition"),
        ({"startingOffsets": '{"readings": {"0": %s}}' % ("9" * 5000)}, "Option startingOffsets.*give JSON"),
        ({"startingOffsets": '{"readings": {"%s": 1}}' % ("9" * 5000)}, "Option startingOffsets.*each"),
        ({"startingOffsets": '{"readings": {"\u0663": 1}}'}, "number for each partition"),
        ({"startingOffsets": '{"readings": {"2147483648": 1}}'}, "number for each partition"),
        ({"startingOffsets": '{"readings": {}}'}, "number for each partition"),
        (
            {"startingOffsets": '{"readings": {"1": 5, "01": 6}}'},
            "partition 1 of topic readings is given twice",
        ),
        ({"startingOffsets": '{"readings": {"1": 5, "1": 6}}'}, "give JSON"),
        ({"startingOffsets": '{"read\\ud800": {"0": 1}}'}, "Option startingOffsets.*not a topic's name"),
        ({"startingOffsets": '{"readings":' * 100_000}, "Option startingOffsets.*give JSON"),
        ({"endingOffsets": '{"readings": {"0": -3}}'}, "Option endingOffsets.*-2 or more"),
        ({"startingOffsetsByTimestamp": '{"readings": {"0": -1}}'}, "each partition milliseconds"),
        ({"startingOffsetsByTimestamp": '{"readings": {"0": "2026-01-01"}}'}, "a time with its zone"),
        ({"startingOffsetsByTimestamp": '{"readings": {"0": true}}'}, "a time with its zone"),
        ({"startingTimestamp": "2026-01-01T00:00:00"}, "a time with its zone"),
        ({"startingTimestamp": "2026-13-01T00:00:00Z"}, "a time with its zone"),
        ({"endingTimestamp": "1969-12-31T23:59:59.999Z"}, "a time with its zone"),
        ({"startingOffsetsUnnamed": "latest"}, "works only with offsets of single partitions, such as"),
        ({"startingOffsets": "latest", "startingOffsetsUnnamed": "latest"}, "of single partitions"),
        ({"startingTimestamp": "1", "startingOffsetsUnnamed": "latest"}, "of single partitions"),
        (
            {"startingOffsets": '{"readings": {"0": 1}}', "startingOffsetsUnnamed": "group"},
            "give earliest or latest",
        ),
        ({"startingTimestamp": "9" * 5000}, "Option startingTimestamp.*milliseconds since 1970"),
        ({"startingTimestamp": "9223372036854775808"}, "Option startingTimestamp.*milliseconds"),
        ({"startingTimestamp": "1e400"}, "Option startingTimestamp.*milliseconds"),
        ({"startingTimestamp": "-5"}, "Option startingTimestamp.*milliseconds"),
        ({"startingTimestamp": "\u0661\u0662"}, "Option startingTimestamp.*milliseconds"),
        ({"subscribe": "^readings"}, "Option subscribe.*not a topic's name"),
        ({"startingOffsetsWithoutCommit": "latest"}, "works only with startingOffsets=group: leave it out"),
        (
            {"startingOffsets": "latest", "startingOffsetsWithoutCommit": "latest"},
            "works only with startingOffsets=group",
        ),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "works only with startingTimestamp"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number of 1 or more"),
        ({"maxOffsetsPerTrigger": "9" * 5000}, "Option maxOffsetsPerTrigger.*whole number of 1 or more"),
        ({"maxOffsetsPerTrigger": "\u0663"}, "Option maxOffsetsPerTrigger.*whole number"),
        ({"maxOffsetsPerTrigger": "1e3"}, "Option maxOffsetsPerTrigger.*whole number"),
        ({"tasks": "1_000"}, "Option tasks.*whole number"),
        ({"splitPartitions": "true"}, "Option splitPartitions.*add the option tasks"),
        ({"maxTriggerDelay": "5m"}, "works only with minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "no batch can fulfil both"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "0s"}, "Option maxTriggerDelay.*duration of 1 ms"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "2 weeks"}, "Option maxTriggerDelay.*duration"),
        ({"failOnDataLoss": "maybe"}, "give true or false"),
        ({"tasks": ""}, "Option tasks is empty"),
        ({"columns": "value,colour"}, "no column 'colour'"),
        ({"columns": "value", "includeHeaders": "true"}, "columns leaves it out"),
        ({"kafka.max.poll.records": "1"}, "is one of the Java client.*leave it out"),
        ({"kafka.fetch.max.wait.ms": "1"}, "write kafka.fetch.wait.max.ms"),
        ({"groupId": "a", "kafka.group.id": "b"}, "keep groupId"),
        ({"namespace": "home", "connectionStringEnv": "X"}, "both name the broker"),
        ({"credential": "cli"}, "works only with the option namespace"),
    ],
)
def test_what_is_wrong_is_refused_by_name(given: dict[str, str], text: str) -> None:
    """Unknown, conflicting and unsafe options are one error each that names the option and the way out.

    Trap: `minPartitions` and `maxRecordsPerPartition` would split a partition over tasks.
    """
    with pytest.raises(ConfigurationError, match=text):
        options_from({**HERE, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"assign": '{"readings": [2147483648]}'},
        {"assign": '{"readings": [1e400]}'},
        {"assign": '{"a b": [0]}'},
    ],
)
def test_partitions_that_cannot_be_are_refused(given: dict[str, str]) -> None:
    """What Kafka has no room for would end the query later, in a task."""
    with pytest.raises(ConfigurationError, match="Option assign"):
        options_from({"kafka.bootstrap.servers": "localhost:9092", **given})


def test_numbers_at_their_ends_are_taken() -> None:
    """Zeros in front, the largest offset, a partition named twice."""
    largest = 2**63 - 1
    options = options_from({**HERE, "maxOffsetsPerTrigger": f"{'0' * 30}{largest}", "startingTimestamp": "0"})
    assert (options.limit_records, options.start) == (largest, AtTime(0))
    offsets = options_from({**HERE, "startingOffsets": f'{{"readings": {{"0": {largest}}}}}'}).start
    assert offsets == AtOffsets(((P0, largest),))
    given = {"kafka.bootstrap.servers": "localhost:9092", "assign": '{"readings": [1, 0, 1]}'}
    assert options_from(given).assigned == (P1, P0)


@pytest.mark.parametrize("text", ["home-(", "a{99999999999}", "(" * 5000])
def test_a_pattern_that_is_none_is_refused(text: str) -> None:
    """Before the query begins; what it matches, only the broker knows."""
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribePattern": "home-.*"}
    assert options_from(given).pattern == "home-.*"
    with pytest.raises(ConfigurationError, match=r"subscribePattern.*not a regular expression of Python"):
        options_from({**given, "subscribePattern": text})


@pytest.mark.parametrize(
    ("text", "delay_s"),
    [("15m", 900.0), ("1500", 1.5), ("500 MS", 0.5), ("2min", 120.0), ("1h", 3600.0), ("30s", 30.0)],
)
def test_durations_are_written_as_in_spark(text: str, delay_s: float) -> None:
    """Without a unit they are milliseconds."""
    options = options_from({**HERE, "minOffsetsPerTrigger": "5", "maxTriggerDelay": text})
    assert (options.least_records, options.delay_s_max) == (5, delay_s)


def test_no_broker_is_refused() -> None:
    """Without any option that names the broker, all of them are reported."""
    with pytest.raises(ConfigurationError, match="connectionStringEnv, connectionStringFile, namespace"):
        options_from({"subscribe": "readings"})
