"""A mirror's blob that is not this app's: another spelling of its names, or an SDK's checkpoint over it."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.events import MirrorForeign, MirrorUsed
from ehkafka.progress.metadata import LogFacts
from tests.contract.conftest import ends_with
from tests.contract.mirrored import LAYOUT, Mirrored, timestamp_ms
from tests.kit.waiting import wait_until

NAME, OWNER = LAYOUT.name("t", 0), LAYOUT.name("t", 0, "ehkafka/owner")
SDK = {"sequencenumber": "99999", "offset": "8589934592"}


@pytest.fixture
def container(lab: Any) -> Mirrored:
    """Return an empty container."""
    return Mirrored(lab)


def test_a_group_that_differs_in_case_alone_takes_over_nothing(container: Mirrored, recorder: Any) -> None:
    """`G` has handled nothing when `g` is done: it begins at start=, and leaves what `g` wrote alone."""
    lab = container.lab
    lab.judged = False  # two groups handle the same records
    lab.produce("a b c d e")
    first = container.start(recorder)
    wait_until(lambda: container.next_offset() == 5)
    first.stop()
    checkpoint, owner = container.blob(), container.store.read(OWNER)
    other = lab.recorder()
    second = container.start(other, group="G")
    wait_until(lambda: lab.committed(group="G") == 5 or container.events.of(MirrorUsed))
    assert other.count == 5
    lab.produce("f")
    wait_until(lambda: lab.committed(group="G") == 6)
    second.stop()
    assert sorted(other.offsets()) == [0, 1, 2, 3, 4, 5]  # each key at its own pace
    assert container.events.of(MirrorUsed) == []
    assert (container.blob(), container.store.read(OWNER)) == (checkpoint, owner)
    [reported] = container.events.of(MirrorForeign)
    assert reported.blob == f"memory/{NAME}"
    assert "'g'" in reported.reason
    assert "'G'" in reported.reason


def test_an_sdk_s_later_checkpoint_is_not_overwritten(container: Mirrored, recorder: Any) -> None:
    """It set the metadata of our blob and left our body: its position and its own offset stay."""
    lab = container.lab
    lab.produce("a b")
    app = container.start(recorder)
    wait_until(lambda: container.next_offset() == 2)
    # What an SDK does where a blob is there: it leaves the body.
    there = container.blob()
    container.store.write(NAME, metadata=SDK, body=there.body, expected=there.version)
    lab.produce("c")
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    assert dict(container.blob().metadata) == SDK
    [reported] = container.events.of(MirrorForeign)
    assert "100000" in reported.reason
    assert "2" in reported.reason


def contested(container: Mirrored, **options: Any) -> Any:
    """Return an app whose group has no commit, and whose mirror an SDK has written over."""
    container.lab.produce("a b c d e")
    witness = (1, timestamp_ms(container.lab, 1))
    container.put(Checkpoint(next_offset=2, facts=LogFacts(witness=witness), group="g", topic="t"), SDK)
    return container.app(container.lab.recorder(), **options)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_start_without_a_commit_does_not_choose_between_the_sdk_and_us(
    container: Mirrored, start: str
) -> None:
    """Both positions are named, and start= does not decide: whichever it took could skip records."""
    app = contested(container, start=start)
    app.start()
    found = ends_with(app, ehkafka.errors.EndpointError, "100000")
    assert "over ours, 2" in str(found)
    assert "ehkafka offsets import" in str(found)
    assert container.lab.committed() is None
    assert dict(container.blob().metadata) == SDK


def test_who_says_where_to_begin_is_not_asked_again(container: Mirrored) -> None:
    """`on_no_group_offsets="start"` is a decision; the SDK's checkpoint stays all the same."""
    app = contested(container, on_no_group_offsets="start")
    app.start()
    wait_until(lambda: container.lab.committed() == 5)
    app.stop()
    assert dict(container.blob().metadata) == SDK
