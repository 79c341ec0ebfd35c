"""Stands for Event Hubs' AMQP endpoint, which needs a live namespace: its SDKs' programs read a Kafka broker.

`python -m tests.kit.amqp_stand_in BOOTSTRAP TOPIC PROGRAM` runs a program of azure-eventhub 5, plain or aio,
or of EventProcessorHost in azure-eventhub 1. Of the first only `receive` and the blob container are replaced;
the second is replaced as a whole, because both cannot be installed. Each checkpoint is a line on stderr.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
import types
from typing import TYPE_CHECKING, Any

import azure.eventhub
import azure.eventhub.aio
from azure.eventhub._eventprocessor.partition_context import PartitionContext
from azure.eventhub.aio._eventprocessor.partition_context import PartitionContext as AioPartitionContext
from azure.eventhub.extensions import checkpointstoreblob
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.kit.amqp_events import received

if TYPE_CHECKING:
    from collections.abc import Iterator

FROM_THE_BEGINNING = "-1"


class Hub:
    """The topic that stands for the event hub."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
        partitions = self._consumer.list_topics(topic, 10.0).topics[topic].partitions
        self.partitions = [str(number) for number in partitions]
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])

    def events(self) -> Iterator[tuple[str, Any] | None]:
        """Yield each event with its partition; None each time that there is none yet."""
        while True:
            record = self._consumer.poll(0.1)
            if record is None:
                yield None
            elif record.error() is None:
                key, offset = record.key() or b"", record.offset() or 0
                event = received(record.value() or b"", {}, key=key, sequence_number=offset)
                yield str(record.partition()), event

    async def aio_events(self) -> Any:
        """Yield each event with its partition, without blocking the loop."""
        events = self.events()
        while True:
            if found := await asyncio.to_thread(next, events):
                yield found


def report(partition: str, sequence_number: int | None) -> None:
    """Tell of a checkpoint."""
    sys.stderr.write(f"checkpoint {partition} {sequence_number}\n")


# --- azure-eventhub 5 --------------------------------------------------------------------------------


class BlobStore:
    """A checkpoint store of the plain client, without a container."""

    @classmethod
    def from_connection_string(cls, _string: str, _container: str) -> BlobStore:
        """Make it as the package's own is made."""
        return cls()

    def update_checkpoint(self, checkpoint: dict[str, Any], **_options: object) -> None:
        """Report a checkpoint."""
        report(checkpoint["partition_id"], checkpoint["sequence_number"])


class AioBlobStore(BlobStore):
    """The same for the aio client."""

    async def update_checkpoint(self, checkpoint: dict[str, Any], **_options: object) -> None:  # type: ignore[override]
        """Report a checkpoint."""
        report(checkpoint["partition_id"], checkpoint["sequence_number"])


def replace_connection(hub: Hub) -> None:
    """Let both clients of azure-eventhub 5 read the topic."""

    def place(client: Any, partition: str) -> tuple[Any, ...]:
        names = (client._address.hostname, client.eventhub_name, client._consumer_group)
        return (*names, partition, client._checkpoint_store)

    def receive(client: Any, on_event: Any, *, starting_position: str) -> None:
        assert starting_position == FROM_THE_BEGINNING
        for found in hub.events():
            if found is not None:
                context = PartitionContext(*place(client, found[0]))
                on_event(context, found[1])

    async def aio_receive(client: Any, on_event: Any, *, starting_position: str) -> None:
        assert starting_position == FROM_THE_BEGINNING
        async for partition, event in hub.aio_events():
            await on_event(AioPartitionContext(*place(client, partition)), event)

    azure.eventhub.EventHubConsumerClient.receive = receive  # type: ignore[method-assign, assignment]
    azure.eventhub.aio.EventHubConsumerClient.receive = aio_receive  # type: ignore[method-assign, assignment]
    checkpointstoreblob.BlobCheckpointStore = BlobStore  # type: ignore[misc, assignment]
    replace_module(f"{checkpointstoreblob.__name__}aio", BlobCheckpointStore=AioBlobStore)


def replace_module(name: str, **names: Any) -> None:
    """Let a program import these names from a module that is not installed."""
    module = types.ModuleType(name)
    vars(module).update(names)
    sys.modules[name] = module


# --- azure-eventhub 1's EventProcessorHost -----------------------------------------------------------


class Context:
    """The PartitionContext of a processor: a checkpoint is that of the event it was given last."""

    def __init__(self, partition_id: str) -> None:
        self.partition_id = partition_id
        self.last: int | None = None

    async def checkpoint_async(self) -> None:
        """Report a checkpoint."""
        report(self.partition_id, self.last)


class Host:
    """The EventProcessorHost: a processor for each partition, one batch of one event at a time."""

    hub: Hub

    def __init__(self, processor: Any, _config: object, _leases: object, *, eph_options: Any) -> None:
        assert eph_options.initial_offset_provider == FROM_THE_BEGINNING
        self._pumps = {one: (processor(None), Context(one)) for one in self.hub.partitions}

    async def open_async(self) -> None:
        """Open the processors and begin to read."""
        for processor, context in self._pumps.values():
            await processor.open_async(context)
        self._reading = asyncio.create_task(self._read())

    async def close_async(self) -> None:
        """Stop reading and close the processors."""
        self._reading.cancel()
        for processor, context in self._pumps.values():
            await processor.close_async(context, "Shutdown")

    async def _read(self) -> None:
        async for partition, event in self.hub.aio_events():
            processor, context = self._pumps[partition]
            context.last = event.sequence_number
            await processor.process_events_async(context, [event])


class Processor:
    """The AbstractEventProcessor."""

    def __init__(self, params: object = None) -> None:
        """Take what the host was given for it."""


def replace_host(hub: Hub) -> None:
    """Let a program import the names of EventProcessorHost."""
    Host.hub = hub
    replace_module(
        "azure.eventprocessorhost",
        AbstractEventProcessor=Processor,
        AzureStorageCheckpointLeaseManager=lambda _account, _key, _container: None,
        EPHOptions=types.SimpleNamespace,
        EventHubConfig=lambda *_names, consumer_group: consumer_group,
        EventProcessorHost=Host,
    )


if __name__ == "__main__":
    bootstrap, topic, program = sys.argv[1:]
    the_hub = Hub(bootstrap, topic)
    replace_connection(the_hub)
    replace_host(the_hub)
    runpy.run_path(program, run_name="__main__")
