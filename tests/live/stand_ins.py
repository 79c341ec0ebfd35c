"""A broker that is entered as a namespace of Event Hubs, and the same one behind a proxy where it differs."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Self

from azure.eventhub._pyamqp._encode import encode_value
from azure.eventhub._pyamqp.types import AMQPTypes
from confluent_kafka import KafkaError

from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.faults.kafka_proxy import CommitPolicy, KafkaProxy
from tests.kit.faults.network import Network
from tests.kit.namespace_versions import NAMESPACE as NAMESPACE_VERSIONS

NAMESPACE = "here.servicebus.windows.net"
KEYS = [
    "Zmlyc3QgZmlyc3QgZmlyc3QgZmlyc3QgZmlyc3QgZmk=",
    "c2Vjb25kIHNlY29uZCBzZWNvbmQgc2Vjb25kIHNlY28=",
    "d3Jvbmcgd3Jvbmcgd3Jvbmcgd3Jvbmcgd3Jvbmcgd3I=",
]
FIRST, SECOND, WRONG = (
    f"Endpoint=sb://{NAMESPACE}/;SharedAccessKeyName=live;SharedAccessKey={key}" for key in KEYS
)
SCALE = 0.005
# What Azure's 240 s are at this scale, with some room: a busy machine shall close no connection that is used.
IDLE_CLOSE_S = 1.2
SHORT_METADATA_BYTES = 512


# A client commits one partition here, so the size of a request is that of its metadata.
SHORT_METADATA = CommitPolicy(
    bytes_max=SHORT_METADATA_BYTES + 250,
    excess_delay_s=0.0,
    excess_code=KafkaError.OFFSET_METADATA_TOO_LARGE,
)


class StandIns:
    """`hub` is the way in that keeps the documented limits, `other` the one that differs."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self.hub = KafkaProxy(policy=CommitPolicy(per_s=4))
        self.other = KafkaProxy(policy=SHORT_METADATA)
        self.other.versions = NAMESPACE_VERSIONS
        self.broker: Any = None

    def __enter__(self) -> Self:
        for proxy in (self.hub, self.other):
            self._open.enter_context(proxy)
        key = {"$ConnectionString": FIRST}
        self.broker = KafkaBroker(
            listeners={
                "hub": Listener(users=key, unsecured_tokens=True, advertised_port=self.hub.port),
                "second": Listener(users={"$ConnectionString": SECOND}, advertised_port=self.hub.port),
                "other": Listener(users=key, advertised_port=self.other.port),
            },
            properties={
                "group.min.session.timeout.ms": 6_000,
                "group.max.session.timeout.ms": 300_000,
                "log.message.timestamp.type": "LogAppendTime",
            },
        )
        self._open.callback(self.broker.stop)
        self.broker.start()
        self.accept("hub")
        self.other.forward_to(self.broker.bootstrap_for("other"))
        return self

    def __exit__(self, *_exception: object) -> None:
        self._open.close()

    def accept(self, listener: str) -> None:
        """Lead new connections to the listener that takes the first key, or to the one of the second."""
        self.hub.forward_to(self.broker.bootstrap_for(listener))

    def close_idle(self) -> None:
        """Close idle connections from now on."""
        self.hub.network = Network(idle_close_s=IDLE_CLOSE_S)

    def names(self) -> set[str]:
        """Return all topics and groups that runs have left."""
        admin = self.broker._admin()
        groups = admin.list_consumer_groups().result(10.0).valid
        found = {*admin.list_topics(timeout=10.0).topics, *(group.group_id for group in groups)}
        return {name for name in found if not name.startswith("__")}


def environment(proxy: KafkaProxy, string: str = FIRST) -> dict[str, str]:
    """Return the variables that lead a run to a way in."""
    return {
        "EHKAFKA_CONNECTION_STRING": string,
        "EHKAFKA_PROPERTY_BOOTSTRAP_SERVERS": proxy.address,
        "EHKAFKA_PROPERTY_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    }


def amqp_header(value: Any) -> bytes:
    """Return a property as an AMQP producer's would be a header, by the SDK's own encoder."""
    output = bytearray()
    kinds = {str: AMQPTypes.string, bool: AMQPTypes.boolean, int: AMQPTypes.int, float: AMQPTypes.double}
    encode_value(output, {"TYPE": kinds[type(value)], "VALUE": value})
    return bytes(output)
