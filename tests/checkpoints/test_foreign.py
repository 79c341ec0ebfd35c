"""Blobs that are not ours, though they lie where ours belong: never used, never overwritten."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import (
    NAME_CHARACTERS_MAX,
    checkpoint_body,
    checkpoint_metadata,
    ownership_metadata,
    read_checkpoint,
    read_ownership,
)
from ehkafka.checkpoints.mirror.book import MirrorBook
from ehkafka.checkpoints.mirror.foreign import Foreign, checkpoint_in
from ehkafka.checkpoints.mirror.mirror import Mirror
from ehkafka.checkpoints.mirror.owners import EVERY_S, OwnerBook
from ehkafka.checkpoints.mirror.work import MirrorWork
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoredBlob
from ehkafka.events import MirrorForeign
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.checkpoints.stores.store import CheckpointStore
    from ehkafka.events import Event
    from tests.kit.azurite import Azurite

LAYOUT = Layout("ns", "orders")
NAME = LAYOUT.name("readings", 0)
OWNER = LAYOUT.name("readings", 0, "ehkafka/owner")
OURS = Checkpoint(next_offset=723, owner="host-1-ab", group="orders", topic="readings")


def blob(metadata: dict[str, str], checkpoint: Checkpoint = OURS) -> StoredBlob:
    """Return a blob with our body and another writer's metadata."""
    return StoredBlob(NAME, "1", metadata, checkpoint_body(checkpoint))


def test_our_own_blob_is_ours() -> None:
    """With its metadata, and in a store that keeps none; what others add to them is no matter."""
    metadata = checkpoint_metadata(OURS)
    for found in (metadata, {}, {**metadata, "cost-centre": "7"}):
        assert checkpoint_in(blob(found), "orders", "readings") == OURS


def test_a_blob_without_names_fits_each_group() -> None:
    """Names that are not known contradict no claim."""
    nameless = Checkpoint(next_offset=7)
    assert checkpoint_in(blob(checkpoint_metadata(nameless), nameless), "orders", "t") == nameless


@pytest.mark.parametrize(
    ("metadata", "position"),
    [
        ({"sequencenumber": "99999", "offset": "8589934592"}, "100000"),  # Python, JavaScript, Java, Go
        ({"sequencenumber": "99999", "offset": "", "clientidentifier": "reader"}, "100000"),  # .NET
        ({"sequencenumber": "722", "offset": "8589934592"}, "723"),  # where we stand, with its own offset
        ({"sequencenumber": "722", "offset": "", "clientidentifier": "reader"}, "723"),
        ({"sequencenumber": "3", "offset": ""}, "4"),
        ({"offset": "1:42"}, "an offset that Kafka does not know"),  # of a geo-replicated hub
        ({"sequencenumber": "None", "offset": "1:42"}, "an offset that Kafka does not know"),
        ({"sequencenumber": "9" * 400, "offset": ""}, "an offset that Kafka does not know"),
    ],
)
def test_metadata_that_disagree_with_our_body_are_an_sdk_s(metadata: dict[str, str], position: str) -> None:
    """It sets them and leaves our body: both positions are named."""
    found = checkpoint_in(blob(metadata), "orders", "readings")
    assert isinstance(found, Foreign)
    assert found.is_contested
    assert f"resumes at {position}, instead of ehkafka's, 723" in found.reason


@pytest.mark.parametrize(
    ("group", "topic"),
    [("Orders", "readings"), ("orders", "Readings"), ("orders", "r" * NAME_CHARACTERS_MAX)],
)
def test_another_spelling_is_another_group_or_topic(group: str, topic: str) -> None:
    """Both are named; whose metadata they are is no matter then."""
    for metadata in (checkpoint_metadata(OURS), {"sequencenumber": "9"}):
        found = checkpoint_in(blob(metadata), group, topic)
        assert isinstance(found, Foreign)
        assert not found.is_contested
        assert repr(group) in found.reason
        assert repr(topic) in found.reason
        assert "'orders'" in found.reason


def test_names_come_back_from_a_body_as_they_are() -> None:
    """They are compared, not shown: one beyond all bounds equals no name."""
    odd = Checkpoint(next_offset=1, group="Bestellungen ä\x1b[31m", topic="T")
    found = read_checkpoint(checkpoint_body(odd))
    assert found == odd
    long = read_checkpoint(checkpoint_body(Checkpoint(next_offset=1, group="g" * 5000)))
    assert long is not None
    assert NAME_CHARACTERS_MAX < len(long.group) < 2 * NAME_CHARACTERS_MAX


def test_names_of_an_owner_come_back_from_ascii_metadata() -> None:
    """A service takes ASCII alone."""
    owner = Ownership(owner="me", epoch=1, at_ms=2, group="Bestellungen ä%", topic="T.1")
    metadata = ownership_metadata(owner)
    assert all(value.isascii() for value in metadata.values())
    assert read_ownership(metadata) == owner


def mirror(store: Any, group: str, reported: list[Event], owner: str) -> Mirror:
    """Return the mirror of a run."""
    made = Mirror(store, Layout("ns", group), owner=owner, interval_s=0.1, emit=reported.append)
    made.start()
    return made


def acknowledge(mirror: Mirror, partition: TopicPartition, next_offset: int) -> None:
    """Let the broker acknowledge a commit."""
    mirror.acknowledged({partition: Position(1, next_offset)}, time.monotonic())


def test_no_store_lets_two_spellings_share_a_blob(store: CheckpointStore) -> None:
    """A group in memory, in a folder and in a container; a topic next to it. First come, first served."""
    orders, readings = TopicPartition("readings", 0), TopicPartition("Readings", 0)
    # A store is one thread's; this one is looked into while a mirror writes.
    reported: list[Event] = []
    first = mirror(store, "orders", reported, "first")
    first.assigned(orders, 1)
    acknowledge(first, orders, 100)
    first.stop(10.0)
    before = {name: store.read(name) for name in (NAME, OWNER)}
    assert reported[-1].__class__ is not MirrorForeign
    for group, partition in (("Orders", orders), ("orders", readings)):
        reported.clear()
        other = mirror(store, group, reported, "other")
        found = other.lookup([partition], 10.0)[partition]
        assert isinstance(found, Foreign)
        other.assigned(partition, 1)
        acknowledge(other, partition, 200)
        wait_until(lambda: any(isinstance(event, MirrorForeign) for event in reported))
        other.ended(partition, 1)
        other.stop(10.0)
        [event] = [event for event in reported if isinstance(event, MirrorForeign)]
        assert event.blob == f"{store.name}/{NAME}"
        assert {name: store.read(name) for name in (NAME, OWNER)} == before


def test_another_group_s_owner_is_reported_and_stays() -> None:
    """Also where the other group has no checkpoint yet; it is looked at again every half minute."""
    store, reported, now_s = MemoryStore(), [], 0.0
    ownership = Ownership(owner="first", epoch=1, at_ms=0, group="orders", topic="readings")
    version = store.write(OWNER, metadata=ownership_metadata(ownership), body=b"", expected=None)
    books = MirrorBook("me", 10.0, "Orders"), OwnerBook("me", "Orders")
    work = MirrorWork(
        store,
        Layout("ns", "Orders"),
        *books,
        lock=threading.Condition(),
        emit=reported.append,
        clock=lambda: now_s,
    )
    partition = TopicPartition("readings", 0)
    for book in books:
        book.assigned(partition, 1)
    work.do()
    now_s = EVERY_S
    work.do()
    found = store.read(OWNER)
    assert found is not None
    assert found.version == version
    [event] = reported
    assert (event.partition, event.blob) == (partition, f"memory/{OWNER}")
    # Once the other one has gone and its blob was taken away, the place is free.
    store._blobs.clear()
    now_s = 2 * EVERY_S
    work.do()
    found = store.read(OWNER)
    assert found is not None
    mine = read_ownership(found.metadata)
    assert mine is not None
    assert (mine.owner, mine.group) == ("me", "Orders")


@pytest.mark.broker
def test_a_checkpoint_of_the_azure_sdk_over_our_mirror_stays(
    azurite: Azurite, container: str, open_store: Callable[..., Any]
) -> None:
    """The real SDK sets the metadata of our blob; from then on we neither write nor use it, and say so."""
    from azure.eventhub.extensions.checkpointstoreblob import BlobCheckpointStore  # noqa: PLC0415 - slow

    host = "home.servicebus.windows.net"
    partition = TopicPartition("readings", 0)
    name = Layout(host, "orders").name(*partition)
    reported: list[Event] = []
    reads = open_store(azurite.connection_string(), container)
    run = Mirror(
        open_store(azurite.connection_string(), container),
        Layout(host, "orders"),
        owner="me",
        interval_s=0.1,
        emit=reported.append,
    )
    run.start()
    run.assigned(partition, 1)
    acknowledge(run, partition, 723)
    wait_until(lambda: reads.read(name) is not None)
    with BlobCheckpointStore.from_connection_string(azurite.connection_string(), container) as sdk:
        sdk.update_checkpoint(
            {
                "fully_qualified_namespace": host,
                "eventhub_name": "readings",
                "consumer_group": "orders",
                "partition_id": "0",
                "sequence_number": 99_999,
                "offset": "8589934592",
            }
        )
        assert read_checkpoint(reads.read(name).body) is not None, "the SDK leaves our body"
        acknowledge(run, partition, 724)
        wait_until(lambda: any(isinstance(event, MirrorForeign) for event in reported))
        found = run.lookup([partition], 10.0)[partition]
        run.stop(5.0)
        [kept] = sdk.list_checkpoints(host, "readings", "orders")
    reads.close()
    assert (kept["sequence_number"], kept["offset"]) == (99_999, "8589934592")
    assert isinstance(found, Foreign)
    assert "100000, instead of ehkafka's, 723" in found.reason
