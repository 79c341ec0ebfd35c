"""`ehkafka.DeserializingConsumer`: confluent-kafka's deserializing on top of the drop-in.

confluent-kafka's class calls `poll`, `close` and the constructor of whatever comes next in the order of
classes; here that is `ehkafka.Consumer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka.deserializing_consumer import DeserializingConsumer as KafkaDeserializingConsumer

from ehkafka.codecs.confluent import within_bounds
from ehkafka.consumer.consumer import Consumer

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Unpack

    from ehkafka.consumer.keywords import ConsumerOptions


class _Chosen(Consumer):
    """What confluent-kafka's constructor hands on the properties to, and those alone."""

    _program_settings: ConsumerOptions

    def __init__(self, conf: dict[str, Any]) -> None:
        super().__init__(conf, **self._program_settings)


class DeserializingConsumer(KafkaDeserializingConsumer[Any, Any], _Chosen):
    """A drop-in for `confluent_kafka.DeserializingConsumer`.

    - `conf` (required): its properties, as confluent-kafka takes them.
    - `**program_settings`: what `ehkafka.Consumer` adds.
    """

    def __init__(self, conf: dict[str, Any], **program_settings: Unpack[ConsumerOptions]) -> None:
        self._program_settings = program_settings
        if not isinstance(conf, dict):
            raise TypeError("expected configuration dict")  # as confluent-kafka's other classes say
        super().__init__(conf)
        both = self._key_deserializer, self._value_deserializer
        self._key_deserializer, self._value_deserializer = (one and within_bounds(one) for one in both)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Close, the deserializers too."""
        self.close()
        return None
