"""A write's options: what is taken, and what is refused by name with the next step."""

from __future__ import annotations

import pickle

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.writer.options import writer_options

HERE = {"kafka.bootstrap.servers": "localhost:9092"}


def test_the_defaults_are_a_producers() -> None:
    """A topic may come from a column; a task waits two minutes, as a Java producer does."""
    options = writer_options(HERE)
    assert (options.topic, options.timeout_s) == (None, 120)


def test_what_spark_itself_adds_is_no_option_of_ours() -> None:
    """A streaming query's own options come along; names are taken in any case."""
    given = {
        "checkpointLocation": "/tmp/x",
        "queryName": "q",
        "TOPIC": "readings",
        "deliverytimeoutms": "1500",
    }
    options = writer_options({**HERE, **given})
    assert (options.topic, options.timeout_s) == ("readings", 1.5)
    assert pickle.loads(pickle.dumps(options)) == options


def test_client_properties_of_a_producer_are_taken() -> None:
    """Whatever does not decide on order or safety is the user's."""
    given = {"kafka.linger.ms": "20", "kafka.batch.size": "1000000", "kafka.partitioner": "consistent"}
    assert dict(writer_options({**HERE, **given}).endpoint.properties) == {
        "linger.ms": "20",
        "batch.size": "1000000",
        "partitioner": "consistent",
    }


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topic": "a,b"}, "several topics: give one"),
        ({"topic": "a b"}, "is not a topic's name"),
        ({"topic": " "}, "Option topic is empty"),
        ({"deliveryTimeoutMs": "0"}, "Option deliveryTimeoutMs: '0' is not understood"),
        ({"subscribe": "a"}, "name the topic to write to with topic"),
        ({"startingOffsets": "earliest"}, "it belongs to spark.read"),
        ({"path": "readings"}, "take no path: name the topic with topic"),
        ({"topik": "a"}, "did you mean topic?"),
        ({"kafka.message.timeout.ms": "5"}, "is deliveryTimeoutMs"),
        ({"kafka.delivery.timeout.ms": "5"}, "is deliveryTimeoutMs"),
        ({"kafka.queue.buffering.max.kbytes": "1"}, "is not supported: a task keeps up to 32 MiB of rows"),
        ({"kafka.partitioner": "mine"}, "partitioner='mine' is refused: it is unknown. Choose one of"),
        ({"kafka.max.in.flight.requests.per.connection": "1"}, "Leave it out"),
        ({"kafka.enable.gapless.guarantee": "false"}, "order hangs on it"),
        ({"kafka.max.request.size": "5"}, "write kafka.message.max.bytes"),
        ({"connectionString": "Endpoint=sb://x"}, "Option connectionString contains a secret"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, str], says: str) -> None:
    """One sentence each, with the option and the next step."""
    with pytest.raises(ConfigurationError) as refused:
        writer_options({**HERE, **given})
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
