"""The drop-in's mirror: written after the broker's acknowledgement, read where the group has no commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.checkpoints.memory_store import MemoryStore
from ehkafka.checkpoints.store_mirror import StoreMirror

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka

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
