"""Before: azure-eventhub, with checkpoints in a blob container. `after.py` does the same with ehkafka.

pip install azure-eventhub azure-eventhub-checkpointstoreblob
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from azure.eventhub import EventHubConsumerClient
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore

if TYPE_CHECKING:
    from azure.eventhub import EventData, PartitionContext

log = logging.getLogger("alarms")


def on_event(context: PartitionContext, event: EventData | None) -> None:
    assert event is not None  # it is None only with max_wait_time
    home = (event.partition_key or b"").decode()
    kind, severity = event.properties[b"kind"].decode(), event.properties[b"severity"]
    room = event.body_as_json()["room"]
    log.warning("%s: %s %d in the %s", home, kind, severity, room)
    log.info("event %d of %s", event.sequence_number, event.enqueued_time)
    context.update_checkpoint(event)


def on_error(context: PartitionContext | None, error: Exception) -> None:
    log.error("partition %s: %s", context.partition_id if context else "unknown", error)


def main() -> None:
    checkpoint_store = BlobCheckpointStore.from_connection_string(
        os.environ["AZURE_STORAGE_CONN_STR"], "checkpoints"
    )
    client = EventHubConsumerClient.from_connection_string(
        os.environ["EVENT_HUB_CONN_STR"],
        consumer_group="$Default",
        eventhub_name="alarms",
        checkpoint_store=checkpoint_store,
    )
    with client:
        client.receive(on_event, on_error=on_error, starting_position="-1")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
