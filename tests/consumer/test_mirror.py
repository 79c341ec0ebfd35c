"""The drop-in's mirror: written after the broker's acknowledgement, read where the group has no commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    Open = Callable[..., ehkafka.Consumer]
    Read = Callable[..., list[Any]]


def test_a_group_that_lost_its_commits_begins_at_the_mirror(open_consumer: Open, read: Read) -> None:
    """What was committed is in the mirror; without the group's commit the next consumer begins there."""
    store = MemoryStore()
    mirror = StoreMirror(store=store, interval_s=0.1, namespace="home")
    choices = {"mirror": mirror}
    first = open_consumer(choices, enable_auto_commit=False)
    first.subscribe(["t"])
    messages = read(first, 10)
    first.commit(messages[6], asynchronous=False)
    first.close()
    # Another group, for which the mirror has been copied: it has no commit of its own.
    for name in [blob.name for blob in store.list_blobs("home/")]:
        blob = store.read(name)
        assert blob is not None
        copy = name.replace("/g/", "/h/")
        body = blob.body.replace(b'"group":"g"', b'"group":"h"')
        store.write(copy, metadata=blob.metadata, body=body, expected=None)
    second = open_consumer(choices, enable_auto_commit=False, group_id="h")
    second.subscribe(["t"])
    assert read(second, 1)[0].offset() == 7


def test_a_mirror_that_an_sdk_has_written_over_is_not_begun_at(open_consumer: Open, read: Read) -> None:
    """Without a commit of the group both positions are named, and nothing is read or written."""
    store = MemoryStore()
    name = Layout("home", "g").name("t", 0)
    sdk = {"sequencenumber": "99999", "offset": "8589934592"}
    body = checkpoint_body(Checkpoint(next_offset=3, group="g", topic="t"))
    version = store.write(name, metadata=sdk, body=body, expected=None)
    choices = {"mirror": StoreMirror(store=store, interval_s=0.1, namespace="home")}
    consumer = open_consumer(choices, enable_auto_commit=False)
    consumer.subscribe(["t"])
    with pytest.raises(ehkafka.errors.EndpointError, match=r"resumes at 100000, instead of ehk"):
        read(consumer, 1)
    consumer.close()
    found = store.read(name)
    assert found is not None
    assert found.version == version


def test_what_the_commit_says_of_its_log_is_read_where_there_is_a_mirror_too(
    open_consumer: Open, read: Read
) -> None:
    """`committed()` hides it from the program, not from the guard."""
    first = open_consumer(enable_auto_commit=False)
    first.subscribe(["t"])
    read(first, 100)
    known = first._internals.log_guard.facts.now
    wait_until(lambda: bool(known()), "what the group had committed", meanwhile=lambda: first.poll(0.05))
    first.commit(asynchronous=False)
    first.close()
    second = open_consumer({"mirror": StoreMirror(store=MemoryStore())}, enable_auto_commit=False)
    second.subscribe(["t"])
    wait_until(lambda: bool(second.assignment()), "its partition", meanwhile=lambda: second.poll(0.05))
    witness = second._internals.log_guard.facts.carried(ehkafka.TopicPartition("t", 0)).witness
    assert witness is not None
    assert witness[0] == 99
