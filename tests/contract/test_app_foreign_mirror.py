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


def test_a_group_that_differs_in_case_alone_takes_over_nothing(mirrored: Mirrored, recorder: Any) -> None:
    """`G` has handled nothing when `g` is done: it begins at start=, and leaves what `g` wrote alone."""
    lab = mirrored.lab
    lab.judged = False  # two groups handle the same records
    lab.produce("a b c d e")
    first = mirrored.start(recorder)
    wait_until(lambda: mirrored.next_offset() == 5)
    first.stop()
    checkpoint, owner = mirrored.blob(), mirrored.store.read(OWNER)
    other = lab.recorder()
    second = mirrored.start(other, group="G")
    wait_until(lambda: lab.committed(group="G") == 5 or mirrored.events.of(MirrorUsed))
    assert other.count == 5
    lab.produce("f")
    wait_until(lambda: lab.committed(group="G") == 6)
    second.stop()
    assert sorted(other.offsets()) == [0, 1, 2, 3, 4, 5]  # each key at its own pace
    assert mirrored.events.of(MirrorUsed) == []
    assert (mirrored.blob(), mirrored.store.read(OWNER)) == (checkpoint, owner)
    [reported] = mirrored.events.of(MirrorForeign)
    assert reported.blob == f"memory/{NAME}"
    assert "'g'" in reported.reason
    assert "'G'" in reported.reason


def test_an_sdk_s_later_checkpoint_is_not_overwritten(mirrored: Mirrored, recorder: Any) -> None:
    """It set the metadata of our blob and left our body: its position and its own offset stay."""
    lab = mirrored.lab
    lab.produce("a b")
    app = mirrored.start(recorder)
    wait_until(lambda: mirrored.next_offset() == 2)
    # What an SDK does where a blob is there: it leaves the body.
    there = mirrored.blob()
    mirrored.store.write(NAME, metadata=SDK, body=there.body, expected=there.version)
    lab.produce("c")
    wait_until(lambda: lab.committed() == 3)
    app.stop()
    assert dict(mirrored.blob().metadata) == SDK
    [reported] = mirrored.events.of(MirrorForeign)
    assert "100000" in reported.reason
    assert "2" in reported.reason


def contested(mirrored: Mirrored, **options: Any) -> Any:
    """Return an app whose group has no commit, and whose mirror an SDK has written over."""
    mirrored.lab.produce("a b c d e")
    witness = (1, timestamp_ms(mirrored.lab, 1))
    mirrored.put(Checkpoint(next_offset=2, facts=LogFacts(witness=witness), group="g", topic="t"), SDK)
    return mirrored.app(mirrored.lab.recorder(), **options)


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_start_without_a_commit_does_not_choose_between_the_sdk_and_us(
    mirrored: Mirrored, start: str
) -> None:
    """Both positions are named, and start= does not decide: whichever it took could skip records."""
    app = contested(mirrored, start=start)
    app.start()
    found = ends_with(app, ehkafka.errors.EndpointError, "100000")
    assert "instead of ehkafka's, 2" in str(found)
    assert "ehkafka offsets import" in str(found)
    assert mirrored.lab.committed() is None
    assert dict(mirrored.blob().metadata) == SDK


def test_who_says_where_to_begin_is_not_asked_again(mirrored: Mirrored) -> None:
    """`on_no_group_offsets="start"` is a decision; the SDK's checkpoint stays all the same."""
    app = contested(mirrored, on_no_group_offsets="start")
    app.start()
    wait_until(lambda: mirrored.lab.committed() == 5)
    app.stop()
    assert dict(mirrored.blob().metadata) == SDK
