"""The producers of a worker process: one for each configuration, idempotent, kept between tasks.

Their properties are those of `app.producer`, except that a message has no time-out of its own: how long a
task waits is decided in `sending`, by what the broker writes meanwhile. A gapless producer ends with the
first message that is refused, so none behind it is written before that one is decided. One thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaException

from ehkafka.endpoint.client import check_client_version, describe_error
from ehkafka.endpoint.properties.layers import LETTER_BYTES
from ehkafka.endpoint.properties.setting_checks import whole_number
from ehkafka.errors import EndpointError
from ehkafka.outputs.one_producer import producer_of
from ehkafka.outputs.properties import message_properties, output_bytes_max
from ehkafka.settings import Settings
from ehkafka.spark.kept import KeptClients
from ehkafka.spark.secrets import OWN_GROUP
from ehkafka.spark.writer.patience import OF, Patience

if TYPE_CHECKING:
    from ehkafka.endpoint import Endpoint

# What the client keeps of rows that are on their way.
QUEUE_KBYTES: Final = 65_536
# How many partitions a topic has is asked again after so long.
TOPICS_S: Final = 60.0
_QUEUE: Final = "queue.buffering.max.kbytes"
_ASK_S: Final = 5.0
_SERVE_S: Final = 0.1
# Those of an app that names nothing but what must be named: all else is the endpoint's.
SETTINGS: Final = Settings(group=OWN_GROUP, start="earliest")


def writer_properties(endpoint: Endpoint, *, is_plain: bool = False) -> dict[str, Any]:
    """Return the properties of a producer, secrets in the clear. Raises `ConfigurationError`.

    Raises `EndpointError` for a broker without producer ids.
    """
    if is_plain:
        raise EndpointError(
            "This broker does not support producer IDs (InitProducerId), without which rows could be"
            " written out of order. Use a broker that does, such as Kafka 0.11 or later."
        )
    most = output_bytes_max(endpoint, SETTINGS)
    properties = {_QUEUE: QUEUE_KBYTES, **message_properties(endpoint, SETTINGS)}
    return {
        **properties,
        # A larger row is refused before the first one is sent, and each other one has room in the queue.
        LETTER_BYTES: most,
        _QUEUE: max(whole_number(_QUEUE, properties[_QUEUE]), most // 1024 + 1),
        "message.timeout.ms": 0,
        # A row that is written costs no call.
        "delivery.report.only.error": True,
    }


class WriterProducer:
    """One producer after the other, why it waits, and which topics there are."""

    def __init__(self, endpoint: Endpoint, **more: object) -> None:
        check_client_version()
        self.endpoint = endpoint
        self.patience = Patience()
        self.one = producer_of(
            lambda is_plain: {**writer_properties(endpoint, is_plain=is_plain), **more},
            endpoint.credential,
            emit=self.patience.take,
            of=OF,
            may_be_plain=False,
        )
        self._topics: dict[str, int] = {}
        self._asked_s = 0.0

    def begin(self, timeout_s: float) -> None:
        """Serve a task that waits for up to so long. Raises `EhkafkaError` if no client can be opened."""
        if self.one.client is None:
            # Whether the broker gives an id was asked on the driver.
            self.one.start(0.0)
        # First what was heard since the last task, which counts no more.
        self.one.serve(0.0)
        self.patience.timeout_s = timeout_s
        self.patience.moved()

    def partitions_of(self, topic: str) -> int:
        """Return how many partitions a topic has, 0 if it does not exist.

        All topics are asked for, as a question for one would make some brokers create it. Raises
        `EndpointError`.
        """
        if topic not in self._topics or time.monotonic() - self._asked_s >= TOPICS_S:
            self._topics = self._asked()
            self._asked_s = time.monotonic()
        return self._topics.get(topic, 0)

    def _asked(self) -> dict[str, int]:
        self.patience.moved()
        while True:
            try:
                found = self.one.client.list_topics(timeout=min(_ASK_S, self.patience.timeout_s)).topics
                return {name: len(one.partitions) for name, one in found.items()}
            except KafkaException as failed:
                problem = describe_error(failed.args[0])
            self.one.serve(_SERVE_S)
            self.patience.check("A column names topics, which were asked", problem)

    def close(self) -> None:
        """Close it; what it has not sent is dropped."""
        self.one.give_up(0.0)


KEPT: Final[KeptClients[WriterProducer]] = KeptClients(WriterProducer.close)
