"""Headers of producers that speak AMQP or HTTPS to Event Hubs, as they arrive at a Kafka consumer.

Responsible for decoding them, and for the partition key that stands in for a missing record key. A values
room: `Record` and the lane keys use it, it knows neither broker nor thread, and no header, however hostile,
makes it raise. `taking` gets them out of a message safely, `size` counts its bytes, `amqp` with `amqp_types`
decodes values, `modes` states the rules, `one_producer` decides a header in doubt by the record's other
ones, `partition_key` finds that key. The functions of `reading` are for `raw=True` handlers, a `Record` has
the same as properties.
"""

from ehkafka.headers.amqp import decode
from ehkafka.headers.amqp_types import Value
from ehkafka.headers.modes import HeaderMode
from ehkafka.headers.reading import (
    content_type,
    partition_key,
    properties,
    schema_id,
    system_properties,
)

__all__ = [
    "HeaderMode",
    "Value",
    "content_type",
    "decode",
    "partition_key",
    "properties",
    "schema_id",
    "system_properties",
]
