"""An app and its mirror: what gets there, what it is used for, and that the group decides."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.body import (
    read_ownership,
)
from ehkafka.errors import EndpointError
from ehkafka.events import (
    MirrorBehind,
    MirrorRecovered,
    MirrorUnavailable,
    MirrorUsed,
    ProgressRestored,
)
from ehkafka.progress.metadata import LogFacts
from tests.contract.conftest import ends_with
from tests.contract.mirrored import LAYOUT, Mirrored, commit, timestamp_ms
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_commits_get_into_the_mirror_and_never_ahead_of_them(mirrored: Mirrored, recorder: Any) -> None:
    """What is written was acknowledged before; after a stop both are the same."""
    gate = recorder.block(b"c")
    app = mirrored.start(recorder)
    mirrored.lab.produce("a b c d e")
    wait_until(lambda: mirrored.next_offset() == 2)
    assert (mirrored.lab.committed() or 0) >= 2
    wait_until(lambda: (mirrored.checkpoint() or Checkpoint(next_offset=0)).finished == ((3, 5),))
    gate.set()
    wait_until(lambda: mirrored.lab.committed() == 5)
    app.stop()
    found = mirrored.checkpoint()
    assert found is not None
    assert (found.next_offset, found.finished, found.epoch) == (5, (), 1)
    # On a broker that tells no topic's id the first one that was found is kept until a look has proved it:
    # the last record of one of the batches in which they were received.
    assert found.facts.witness in {(offset, timestamp_ms(mirrored.lab, offset)) for offset in range(5)}
    assert app.snapshot().mirror.behind_partitions == 0
    assert mirrored.events.of(MirrorBehind) == []


def test_consumption_goes_on_while_the_mirror_is_away(mirrored: Mirrored, recorder: Any) -> None:
    """Handled and committed as always, reported once; the mirror follows when it is back."""
    commit(mirrored.lab, 0)
    mirrored.store.down = True
    app = mirrored.start(recorder)
    for number in range(5):
        mirrored.lab.produce("a b c d")
        wait_until(lambda number=number: mirrored.lab.committed() == 4 * (number + 1))
    wait_until(lambda: app.snapshot().mirror.error is not None)
    assert mirrored.next_offset() is None
    assert app.health().ok, app.health().reasons
    mirrored.store.down = False
    wait_until(lambda: mirrored.next_offset() == 20)
    app.stop()
    assert len(mirrored.events.of(MirrorUnavailable)) == len(mirrored.events.of(MirrorRecovered)) == 1


def test_a_mirror_that_stands_still_holds_up_neither_start_nor_stop(
    mirrored: Mirrored, recorder: Any
) -> None:
    """30 s of latency in the store are not noticed but for one bounded wait at the stop."""
    commit(mirrored.lab, 0)
    mirrored.store.go.clear()
    app = mirrored.start(recorder, consumer={})
    mirrored.lab.produce("a b c d")
    wait_until(lambda: mirrored.lab.committed() == 4)
    began_s = unstolen_s()
    app.stop(timeout_s=1.0)
    assert unstolen_s() - began_s < 5.0
    mirrored.store.go.set()
    assert [event.partitions for event in mirrored.events.of(MirrorBehind)] == [
        (ehkafka.TopicPartition("t", 0),)
    ]


@pytest.mark.parametrize("mirror_at", [2, 4, 5])
def test_the_group_s_commit_decides_and_the_mirror_follows(
    mirrored: Mirrored, recorder: Any, mirror_at: int
) -> None:
    """An older, equal or newer mirror (after an operator's rewind) skips and hides nothing."""
    mirrored.lab.produce("a b c d e")
    commit(mirrored.lab, 3)
    mirrored.put(
        Checkpoint(next_offset=mirror_at, owner="earlier", facts=LogFacts(witness=(mirror_at - 1, 1)))
    )
    app = mirrored.start(recorder)
    wait_until(lambda: mirrored.lab.committed() == 5)
    mirrored.lab.produce("f")
    wait_until(lambda: mirrored.next_offset() == 6)
    app.stop()
    assert recorder.offsets() == [3, 4, 5]
    assert mirrored.events.of(MirrorUsed) == []


def test_a_rewind_gets_into_the_mirror(mirrored: Mirrored, recorder: Any) -> None:
    """The mirror goes back with the group, and never stays ahead of its commits."""
    gate = recorder.block(b"d")
    mirrored.lab.produce("a b c d e f g")
    commit(mirrored.lab, 1)
    mirrored.put(Checkpoint(next_offset=6, owner="earlier"))
    mirrored.start(recorder)
    wait_until(lambda: mirrored.next_offset() == 3)
    gate.set()
    wait_until(lambda: mirrored.next_offset() == 7)


def test_without_a_group_commit_the_mirror_says_where(mirrored: Mirrored, recorder: Any) -> None:
    """Group offsets gone, mirror present: it resumes there, skips what was finished, and says so."""
    mirrored.lab.produce("a b c d e f")
    mirrored.put(
        Checkpoint(
            next_offset=2,
            finished=((4, 5),),
            facts=LogFacts(witness=(1, timestamp_ms(mirrored.lab, 1))),
            owner="host-7",
            written_at_ms=1_700_000_000_000,
        )
    )
    app = mirrored.start(recorder)
    wait_until(lambda: mirrored.lab.committed() == 6)
    app.stop()
    assert sorted(recorder.offsets()) == [2, 3, 5]
    [used] = mirrored.events.of(MirrorUsed)
    assert (used.partition, used.next_offset, used.owner) == (("t", 0), 2, "host-7")
    assert "still" in used.proof
    [restored] = mirrored.events.of(ProgressRestored)
    assert restored.source == "the mirror"


def test_another_log_of_the_same_name_is_refused_with_both_timestamps(
    mirrored: Mirrored, recorder: Any
) -> None:
    """The topic was made anew: to resume at a number would skip records of the new one."""
    mirrored.lab.produce("a b c d e")
    mirrored.put(Checkpoint(next_offset=2, facts=LogFacts(witness=(1, 1_600_000_000_123)), owner="host-7"))
    app = mirrored.start(recorder)
    text = str(ends_with(app, EndpointError, "another log"))
    assert "2020-09-13T12:26:40.123+00:00" in text
    assert str(time.gmtime(timestamp_ms(mirrored.lab, 1) / 1000).tm_year) in text
    assert "on_no_group_offsets='start'" in text
    assert recorder.count == 0
    assert mirrored.lab.committed() is None


def test_what_cannot_be_proved_is_refused(mirrored: Mirrored, recorder: Any) -> None:
    """A mirror that knows no record."""
    mirrored.lab.produce("a b c d e")
    mirrored.put(Checkpoint(next_offset=2))
    ends_with(mirrored.start(recorder), EndpointError, "no timestamp of a record")


def test_what_retention_has_deleted_is_a_gap_as_always(mirrored: Mirrored, recorder: Any) -> None:
    """The log begins behind the mirror's position: `on_out_of_range` decides, and stops by default."""
    mirrored.lab.produce("a b c d e")
    mirrored.lab.broker.delete_records("t", 0, 4)
    mirrored.put(Checkpoint(next_offset=2, facts=LogFacts(witness=(1, 5))))
    app = mirrored.start(recorder)
    ends_with(app, ehkafka.errors.OffsetGapError)


@pytest.mark.parametrize("policy", ["mirror", "start"])
def test_a_partition_that_the_mirror_does_not_know_begins_at_start(
    mirrored: Mirrored, recorder: Any, policy: str
) -> None:
    """A new group begins as if there were no mirror; so does every one with `start`."""
    mirrored.lab.produce("a b c")
    if policy == "start":
        mirrored.put(
            Checkpoint(
                next_offset=2, facts=LogFacts(witness=(1, timestamp_ms(mirrored.lab, 1))), owner="earlier"
            )
        )
    app = mirrored.start(recorder, on_no_group_offsets=policy)
    wait_until(lambda: mirrored.lab.committed() == 3)
    wait_until(lambda: mirrored.next_offset() == 3)
    app.stop()
    assert recorder.offsets() == [0, 1, 2]


def test_fail_ends_the_app_without_a_commit(lab: Any, recorder: Any) -> None:
    """With or without a mirror: a setting must say where to begin."""
    lab.produce("a")
    app = lab.start(recorder, on_no_group_offsets="fail")
    ends_with(app, EndpointError, r"no committed offset for 1 partition \(t\[0\]\)")
    assert lab.committed() is None


def test_reset_begins_at_start_whatever_the_mirror_says(mirrored: Mirrored, recorder: Any) -> None:
    """`reset` is the user's word."""
    mirrored.lab.produce("a b c")
    mirrored.put(
        Checkpoint(next_offset=2, facts=LogFacts(witness=(1, timestamp_ms(mirrored.lab, 1))), owner="earlier")
    )
    app = mirrored.start(recorder, reset=True)
    wait_until(lambda: mirrored.next_offset() == 3)
    app.stop()
    assert recorder.offsets() == [0, 1, 2]
    assert mirrored.events.of(MirrorUsed) == []


def test_ranges_that_the_commit_has_no_room_for_come_from_the_mirror(
    mirrored: Mirrored, recorder: Any, metadata_room: Callable[[int], None]
) -> None:
    """One stuck record with 500 finished ones above it, killed: only the stuck one runs again."""
    recorder.block(b"stuck")
    mirrored.lab.produce("stuck " + " ".join(f"k{number}" for number in range(500)))
    metadata_room(0)
    first = mirrored.start(recorder, workers=4)
    wait_until(lambda: recorder.count == 500)
    wait_until(lambda: (mirrored.checkpoint() or Checkpoint(next_offset=9)).finished == ((1, 501),))
    with pytest.raises(ehkafka.errors.UnfinishedError):
        first.stop(drain=False, timeout_s=0.1)
    second = mirrored.lab.recorder()
    app = mirrored.start(second)
    wait_until(lambda: mirrored.lab.committed() == 501)
    app.stop()
    assert second.offsets() == [0]
    assert mirrored.events.of(ProgressRestored)[-1].finished_offsets == 500


def test_owners_are_in_the_mirror_idle_partitions_included(mirrored: Mirrored, recorder: Any) -> None:
    """Who owns what, while two members share a topic, and after they left."""

    def owners() -> dict[int, tuple[str, bool]]:
        found = {}
        for blob in mirrored.store.list_blobs(LAYOUT.prefix("t4", "ehkafka/owner")):
            ownership = read_ownership(blob.metadata)
            assert ownership is not None
            found[int(blob.name.rpartition("/")[2])] = (ownership.owner, ownership.is_released)
        return found

    apps = [mirrored.app(recorder, "t4") for _ in range(2)]
    apps[0].start()
    wait_until(lambda: len(owners()) == 4)
    apps[1].start()
    wait_until(lambda: len({owner for owner, _ in owners().values()}) == 2)
    wait_until(lambda: not any(is_released for _, is_released in owners().values()))
    by_owner = [owner for owner, _ in owners().values()]
    assert sorted(by_owner.count(owner) for owner in set(by_owner)) == [2, 2]
    for app in apps:
        app.stop()
    assert all(is_released for _, is_released in owners().values())


def test_topics_that_differ_in_case_alone_cannot_share_a_mirror(mirrored: Mirrored, recorder: Any) -> None:
    """Their blobs would have the same names."""
    with pytest.raises(ehkafka.errors.ConfigurationError, match="differ in case"):
        mirrored.app(recorder, "t4", "T4").start()
