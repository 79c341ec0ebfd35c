"""What the old consumer leaves behind: checkpoints of azure-eventhub in a blob container.

Stands for weeks of `context.update_checkpoint(event)`; run it to try the import without an old consumer.

pip install azure-eventhub-checkpointstoreblob
AZURE_STORAGE_CONN_STR='DefaultEndpointsProtocol=…' python examples/migration/old_checkpoints.py 0=6 1=3
"""

from __future__ import annotations

import os
import sys

from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore

NAMESPACE = "home.servicebus.windows.net"
CONTAINER = "checkpoints"


def main() -> None:
    """Write a checkpoint for each PARTITION=SEQUENCE_NUMBER."""
    with BlobCheckpointStore.from_connection_string(os.environ["AZURE_STORAGE_CONN_STR"], CONTAINER) as store:
        for argument in sys.argv[1:]:
            partition, _, number = argument.partition("=")
            store.update_checkpoint(
                {
                    "fully_qualified_namespace": NAMESPACE,
                    "eventhub_name": "alarms",
                    "consumer_group": "$Default",
                    "partition_id": partition,
                    "sequence_number": int(number),
                    # The SDK's own position: opaque, and not visible over Kafka.
                    "offset": str(int(number) * 4096),
                }
            )
            print(f"partition {partition}: done up to sequence number {number}")


if __name__ == "__main__":
    main()
