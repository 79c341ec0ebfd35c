"""A mirror's blob that is not this app's: another spelling of its names, or an SDK's checkpoint over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

import ehkafka
from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import (
    checkpoint_body,
    checkpoint_metadata,
    read_checkpoint,
    read_ownership,
)
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.events import MirrorForeign, MirrorUsed, ProgressRestored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.checkpoints.stores.store import StoredBlob

NAME = Layout("ns", "g").name("t", 0)
OWNER = Layout("ns", "g").name("t", 0, "ehkafka/owner")
SDK = {"sequencenumber": "99999", "offset": "8589934592"}


class Container:
    """A store that apps of several groups mirror into, and SDKs checkpoint into."""

    def __init__(self, lab: Any, events: Any) -> None:
        self.lab = lab
        self.events = events
        self.store = MemoryStore()

    def app(self, handler: Any, *topics: str, **options: Any) -> Any:
        """Return an app with a mirror; its events are kept."""
        mirror = StoreMirror(store=self.store, interval_s=0.1, namespace="ns")
        app = self.lab.app(handler, *topics, mirror=mirror, **options)
        app.add_hook(self.events)
        return app

    def blob(self, name: str = NAME) -> StoredBlob:
        """What lies there."""
        found = self.store.read(name)
        assert found is not None
        return found

    def next_offset(self) -> int | None:
        """How far the mirror is, whoever's it is."""
        found = self.store.read(NAME)
        checkpoint = read_checkpoint(found.body) if found is not None else None
        return checkpoint.next_offset if checkpoint is not None else None

    def put(self, checkpoint: Checkpoint, metadata: Mapping[str, str] | None = None) -> None:
        """Write what an earlier run has left, and the metadata that somebody has set since."""
        there = self.store.read(NAME)
        self.store.write(
            NAME,
            metadata=checkpoint_metadata(checkpoint) if metadata is None else metadata,
            body=checkpoint_body(checkpoint),
            expected=there.version if there else None,
        )

    def set_metadata(self, metadata: Mapping[str, str]) -> None:
        """Do what an SDK does where a blob is there: set its metadata and leave its body."""
        there = self.blob()
        self.store.write(NAME, metadata=metadata, body=there.body, expected=there.version)


def timestamp_ms(lab: Any, offset: int) -> int:
    """Return the timestamp of a record in the log."""
    consumer = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "reads"})
    try:
        consumer.assign([KafkaPartition("t", 0, offset)])
        message = consumer.poll(10.0)
        assert message is not None
        return message.timestamp()[1]
    finally:
        consumer.close()


def commit(lab: Any, next_offset: int) -> None:
    """Let the group `G` have a commit."""
    consumer = Consumer({"bootstrap.servers": lab.broker.bootstrap, "group.id": "G"})
    try:
        consumer.commit(offsets=[KafkaPartition("t", 0, next_offset)], asynchronous=False)
    finally:
        consumer.close()


@pytest.fixture
def container(lab: Any, events: Any) -> Container:
    """Return an empty container."""
    return Container(lab, events)


def test_a_group_that_differs_in_case_alone_takes_over_nothing(
    container: Container, recorder: Any, wait_for: Callable[..., Any]
) -> None:
    """`G` has handled nothing when `g` is done: it begins at start=, and leaves what `g` wrote alone."""
    lab = container.lab
    lab.judged = False  # two groups handle the same records
    lab.produce("a b c d e")
    first = container.app(recorder)
    first.start()
    wait_for(lambda: container.next_offset() == 5)
    first.stop()
    checkpoint, owner = container.blob(), container.blob(OWNER)
    other = lab.recorder()
    second = container.app(other, group="G")
    second.start()
    wait_for(lambda: lab.committed(group="G") == 5 or container.events.of(MirrorUsed))
    assert other.count == 5
    lab.produce("f")
    wait_for(lambda: lab.committed(group="G") == 6)
    second.stop()
    assert sorted(other.offsets()) == [0, 1, 2, 3, 4, 5]  # each key at its own pace
    assert container.events.of(MirrorUsed) == []
    assert (container.blob(), container.blob(OWNER)) == (checkpoint, owner)
    [reported] = container.events.of(MirrorForeign)
    assert reported.blob == f"memory/{NAME}"
    assert "'g'" in reported.reason
    assert "'G'" in reported.reason


def test_a_group_that_differs_in_case_alone_restores_nothing(
    container: Container, recorder: Any, wait_for: Callable[..., Any], metadata_room: Callable[[int], None]
) -> None:
    """What `g` has finished above its commit is not finished for `G`, which stands at the same offset."""
    lab = container.lab
    lab.produce("a b c d")
    container.put(Checkpoint(next_offset=1, finished=((2, 4),), group="g", topic="t"))
    commit(lab, 1)
    metadata_room(0)
    app = container.app(recorder, group="G")
    app.start()
    wait_for(lambda: lab.committed(group="G") == 4)
    app.stop()
    assert recorder.offsets() == [1, 2, 3]
    assert container.events.of(ProgressRestored) == []


def test_an_sdk_s_later_checkpoint_is_not_overwritten(
    container: Container, recorder: Any, wait_for: Callable[..., Any]
) -> None:
    """It set the metadata of our blob and left our body: its position and its own offset stay."""
    lab = container.lab
    lab.produce("a b")
    app = container.app(recorder)
    app.start()
    wait_for(lambda: container.next_offset() == 2)
    container.set_metadata(SDK)
    lab.produce("c")
    wait_for(lambda: lab.committed() == 3)
    app.stop()
    assert dict(container.blob().metadata) == SDK
    [reported] = container.events.of(MirrorForeign)
    assert "100000" in reported.reason
    assert "2" in reported.reason


def contested(container: Container, **options: Any) -> Any:
    """Return an app whose group has no commit, and whose mirror an SDK has written over."""
    container.lab.produce("a b c d e")
    anchor = (1, timestamp_ms(container.lab, 1))
    container.put(Checkpoint(next_offset=2, anchor=anchor, group="g", topic="t"), SDK)
    return container.app(container.lab.recorder(), **options)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_start_without_a_commit_does_not_choose_between_the_sdk_and_us(
    container: Container, start: str
) -> None:
    """Both positions are named, and start= does not decide: whichever it took could skip records."""
    app = contested(container, start=start)
    app.start()
    assert app.wait(15.0)
    with pytest.raises(ehkafka.errors.EndpointError, match="100000") as found:
        app.stop()
    assert "over ours, 2" in str(found.value)
    assert "ehkafka offsets import" in str(found.value)
    assert container.lab.committed() is None
    assert dict(container.blob().metadata) == SDK


def test_who_says_where_to_begin_is_not_asked_again(
    container: Container, wait_for: Callable[..., Any]
) -> None:
    """`on_no_group_offsets="start"` is a decision; the SDK's checkpoint stays all the same."""
    app = contested(container, on_no_group_offsets="start")
    app.start()
    wait_for(lambda: container.lab.committed() == 5)
    app.stop()
    assert dict(container.blob().metadata) == SDK


def test_owners_of_another_spelling_are_left_alone(container: Container, recorder: Any) -> None:
    """The owners' table of `g` shows its own members alone."""
    app = container.app(recorder)
    app.start()
    app.stop()
    found = read_ownership(container.blob(OWNER).metadata)
    assert found is not None
    assert (found.group, found.topic) == ("g", "t")
