"""The mirror with a real broker, in real Blob Storage: read by others, and given back with its partition."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore
from azure.storage.blob import ContainerClient

import ehkafka
from ehkafka.checkpoints.mirror import outage
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from tests.kit.bad_store import BadStore
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.checkpoints.checkpoint import Checkpoint
    from tests.kit.azurite import Azurite

pytestmark = pytest.mark.broker

NAMESPACE = "Home.ServiceBus.Windows.net"


class Storage:
    """A container of a test's own, and what is in it."""

    def __init__(self, azurite: Azurite) -> None:
        self.name = f"c{uuid.uuid4().hex[:12]}"
        self.connection_string = azurite.connection_string()
        azurite.create_container(self.name)

    def mirror(self, namespace: str = NAMESPACE) -> ehkafka.BlobMirror:
        """Return a mirror there."""
        return ehkafka.BlobMirror.connection_string(
            self.connection_string, self.name, interval_s=0.2, namespace=namespace
        )

    def client(self) -> ContainerClient:
        """Return the SDK's own client."""
        return ContainerClient.from_connection_string(self.connection_string, self.name)

    def checkpoints(self, group: str) -> dict[int, Checkpoint]:
        """What the bodies of a group's checkpoints say."""
        found = {}
        with self.client() as client:
            for blob in client.list_blobs():
                if f"/{group}/checkpoint/" in blob.name:
                    checkpoint = read_checkpoint(client.download_blob(blob.name).readall())
                    assert checkpoint is not None
                    found[int(blob.name.rpartition("/")[2])] = checkpoint
        return found


@pytest.fixture
def storage(azurite: Azurite) -> Storage:
    """Return a new container."""
    return Storage(azurite)


@pytest.fixture
def sdk(storage: Storage) -> Iterator[BlobCheckpointStore]:
    """Return the checkpoint store of the SDK for Event Hubs."""
    store = BlobCheckpointStore.from_connection_string(storage.connection_string, storage.name)
    yield store
    store.close()


def test_the_sdk_s_listing_and_keda_s_rule_read_the_right_numbers(
    stage: Any, storage: Storage, sdk: BlobCheckpointStore
) -> None:
    """`sequencenumber` is the last processed one; KEDA's lag, last enqueued less that, is the group's.

    The Python SDK would resume by `offset`, which the mirror cannot know: it shows as the text `None`, so
    that nothing resumes at a wrong place.
    """
    load = stage.load()
    load.produce(500)
    app = stage.app(mirror=storage.mirror(), commit_interval_s=0.1)
    app.start()
    stage.wait_until_committed(load.ends)
    wait_until(
        lambda: {p: c.next_offset for p, c in storage.checkpoints(stage.group).items()} == load.ends, ""
    )
    app.stop()
    listed = sdk.list_checkpoints(NAMESPACE, stage.topic, stage.group)
    assert {int(one["partition_id"]): one["sequence_number"] for one in listed} == {
        partition: end - 1 for partition, end in load.ends.items()
    }
    assert {one["offset"] for one in listed} == {"None"}
    load.produce(100)
    # KEDA: partitions whose checkpoint is behind count with last enqueued - sequencenumber.
    lags = {
        int(one["partition_id"]): load.ends[int(one["partition_id"])] - 1 - one["sequence_number"]
        for one in listed
    }
    assert sum(lags.values()) == 100


def test_a_rebalance_that_gives_a_partition_back_leaves_no_mirror_behind(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed before it is mirrored after it, though no record comes any more."""
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 0.1)
    store = BadStore()
    apps = [stage.app(mirror=StoreMirror(store=store, interval_s=0.1, namespace="ns")) for _ in range(2)]

    def mirrored() -> dict[int, int]:
        blobs = {
            p: MemoryStore.read(store, f"ns/{stage.topic}/{stage.group}/checkpoint/{p}") for p in range(8)
        }
        checkpoints = {p: read_checkpoint(blob.body) for p, blob in blobs.items() if blob is not None}
        return {p: found.next_offset for p, found in checkpoints.items() if found is not None}

    apps[0].start()
    wait_until(lambda: len(apps[0].snapshot().partitions) == 8, "all partitions")
    store.down = True
    load = stage.load()
    load.produce(200)
    stage.wait_until_committed(load.ends)
    apps[1].start()
    wait_until(lambda: all(len(app.snapshot().partitions) == 4 for app in apps), "four partitions each")
    assert mirrored() != load.ends
    store.down = False
    wait_until(lambda: mirrored() == load.ends, lambda: f"{load.ends} mirrored; {mirrored()} is")
    stage.stop_apps()
    assert mirrored() == load.ends
