"""A handler is given what a deserialiser of confluent-kafka's makes; Azure's registry and Protobuf load."""

import json

import confluent_kafka.schema_registry.protobuf
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import ehkafka
from ehkafka.codecs import AzureSchemaRegistry
from ehkafka.testing import EmbeddedBroker

fields = [{"name": "celsius", "type": "double"}]
registry = SchemaRegistryClient.new_client({"url": "mock://readings"})
serialize = AvroSerializer(registry, json.dumps({"type": "record", "name": "Reading", "fields": fields}))
payload = serialize({"celsius": 20.5}, SerializationContext("readings", MessageField.VALUE))

with EmbeddedBroker({"readings": 1}) as broker:
    broker.produce("readings", [("home-1", payload)])
    app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.kafka(broker.bootstrap), start="earliest")
    handled = []

    @app.handler("readings", decoder=AvroDeserializer(registry))
    def handle(reading: dict) -> None:  # type: ignore[type-arg]
        handled.append(reading)

    app.run(until="caught_up")
    assert handled == [{"celsius": 20.5}]
assert AzureSchemaRegistry("home")
assert confluent_kafka.schema_registry.protobuf.ProtobufDeserializer
