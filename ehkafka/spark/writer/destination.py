"""The driver's look at where a write goes, before its first task: topic, credential, the right to write.

A streaming query asks for its writer twice in each batch, in processes that Spark keeps: each of them looks
once, and more patiently, as a broker that restarts must not end a query.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from ehkafka.checks.inspection import Inspection
from ehkafka.checks.reach import enter, reach_topic
from ehkafka.checks.target import Target
from ehkafka.spark.source.client import client_properties
from ehkafka.spark.writer.producers import WriterProducer, writer_properties

if TYPE_CHECKING:
    from ehkafka.spark.writer.options import WriterOptions

_STEP_S: Final = 30.0
# What a batch query waits while every address refuses the connection.
_REFUSED_S: Final = 3.0
_SEEN: set[object] = set()


def check_destination(options: WriterOptions, topic: str | None, *, is_stream: bool) -> None:
    """Open a consumer and a producer once, and close them; without a topic only the broker is reached.

    A broker that gives a producer an id lets it write, except Event Hubs, which refuses at the first message.
    Raises `ConfigurationError`, `EndpointError` or `TopicNotFoundError`.
    """
    if is_stream and (options, topic) in _SEEN:
        return
    endpoint = options.endpoint.endpoint()
    writer_properties(endpoint)  # what is refused among them is raised here
    topics = () if topic is None else (topic,)
    inspection = Inspection(Target(endpoint=endpoint, topics=topics), min(_STEP_S, options.timeout_s))
    inspection.use(client_properties(endpoint, None))

    def connect() -> None:
        reach_topic(inspection, topic, refused_s=inf if is_stream else _REFUSED_S)

    enter(inspection, connect)
    inspection.close()
    producer = WriterProducer(endpoint)
    try:
        producer.one.start()
    finally:
        producer.close()
    _SEEN.add((options, topic))
