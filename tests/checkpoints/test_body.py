from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
from ehkafka.checkpoints.mirror import body
from ehkafka.progress.metadata import LogFacts, facts_word

NUMBERS = st.integers(0, body.OFFSET_MAX)
MILLISECONDS = st.integers(0, body.MILLISECONDS_MAX)


def facts_below(next_offset: int) -> st.SearchStrategy[LogFacts]:
    """Return any facts of a commit."""
    witness = st.tuples(st.integers(max(0, next_offset - 2**35), next_offset - 1), MILLISECONDS)
    return st.builds(
        LogFacts,
        first_partitions=st.none() | st.integers(1, 1_000),
        topic_id=st.none() | st.binary(min_size=16, max_size=16),
        witness=st.none() | witness if next_offset else st.none(),
        reset=st.none() | st.sampled_from(["first", "2026-11"]),
    )


@st.composite
def checkpoints(draw: st.DrawFn) -> Checkpoint:
    """Return any checkpoint that the engine may make."""
    next_offset = draw(st.integers(0, 2**40))
    edges = sorted(draw(st.sets(st.integers(next_offset + 1, 2**41), max_size=20)))
    return Checkpoint(
        next_offset=next_offset,
        finished=tuple(zip(edges[::2], edges[1::2], strict=False)),
        finished_leader_epoch=draw(st.none() | st.integers(0, body.LEADER_EPOCH_MAX)),
        leader_epoch=draw(st.none() | st.integers(0, body.LEADER_EPOCH_MAX)),
        facts=draw(facts_below(next_offset)),
        epoch=draw(NUMBERS),
        owner=draw(st.text(st.characters(categories=["L", "N", "P"]), max_size=40)),
        written_at_ms=draw(MILLISECONDS),
    )


@given(checkpoints())
def test_a_checkpoint_comes_back_as_it_was_written(checkpoint: Checkpoint) -> None:
    """What is written into a body is what is read from it."""
    assert body.read_checkpoint(body.checkpoint_body(checkpoint)) == checkpoint


def test_the_metadata_name_the_last_processed_record_and_no_offset() -> None:
    """The SDK of .NET and KEDA read `sequencenumber`; an invented `offset` would mislead the others."""
    found = body.checkpoint_metadata(Checkpoint(next_offset=43, owner="host:1"))
    assert found == {"sequencenumber": "42", "offset": "", "clientidentifier": "host:1"}


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_foreign_bodies_are_no_checkpoint(foreign: bytes) -> None:
    """Whatever lies there, reading does not raise and invents nothing."""
    assert body.read_checkpoint(foreign) is None


@pytest.mark.parametrize(
    "change",
    [
        {"ehkafka": 2},
        {"ehkafka": True},
        {"next_offset": None},
        {"next_offset": -1},
        {"next_offset": 1.0},
        {"next_offset": True},
        {"next_offset": 2**63},
        {"finished": None},
        {"finished": [[3]]},
        {"finished": [[5, 6], [3, 4]]},
        {"finished": [[12, 12]]},
        {"finished": [[12, 2**64]]},
        {"finished": [[4, 6]]},
        {"finished": [["12", 13]]},
        {"finished": [[12 + 2 * n, 13 + 2 * n] for n in range(body.RANGES_MAX + 1)]},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_checkpoint_that_cannot_be_true_is_refused_whole(change: dict[str, object]) -> None:
    """Half of a broken checkpoint would skip records: none of it is believed."""
    fields = {**json.loads(body.checkpoint_body(Checkpoint(next_offset=10))), **change}
    assert body.read_checkpoint(json.dumps(fields).encode()) is None


def test_details_that_cannot_be_true_are_unknown() -> None:
    """What only decorates a checkpoint, or proves it, is taken as unknown when it is broken."""
    fields = json.loads(body.checkpoint_body(Checkpoint(next_offset=10)))
    fields |= {
        "leader_epoch": "x",
        "facts": facts_word(11, LogFacts(witness=(10, 5))),
        "written_at_ms": 2**49,
        "owner": "a\x1b[31m" + "b" * 999,
    }
    found = body.read_checkpoint(json.dumps(fields).encode())
    assert found is not None
    assert (found.facts, found.leader_epoch) == (LogFacts(), None)
    assert found.written_at_ms == 0, "beyond the calendar: who shows it as a date would fail"
    assert "\x1b" not in found.owner
    assert len(found.owner) == body.OWNER_CHARACTERS_MAX


def test_a_body_of_megabytes_is_not_parsed() -> None:
    """The work of reading is bounded."""
    assert body.read_checkpoint(b"[" * (body.BODY_BYTES_MAX + 1)) is None
    assert body.read_checkpoint(b"[" * 100_000) is None


def test_every_time_that_is_read_can_be_shown() -> None:
    """The mirror's lines and the owners' table show dates."""
    assert datetime.fromtimestamp(body.MILLISECONDS_MAX / 1000, UTC).year == 9999


@pytest.mark.parametrize("is_released", [False, True])
def test_an_ownership_comes_back_from_the_metadata(is_released: bool) -> None:
    """One listing shows who owns what."""
    ownership = Ownership(owner="host:1", epoch=3, at_ms=1_700_000_000_000, is_released=is_released)
    assert body.read_ownership(body.ownership_metadata(ownership)) == ownership
    assert json.loads(body.ownership_body(ownership))["released"] is is_released


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"owner": "a"},
        {"owner": "a", "epoch": "1", "at_ms": "²"},
        {"owner": "a", "epoch": "-1", "at_ms": "1"},
        {"owner": "", "epoch": "1", "at_ms": "1"},
        {"owner": "a", "epoch": "9" * 99, "at_ms": "1"},
    ],
)
def test_foreign_metadata_are_no_ownership(metadata: dict[str, str]) -> None:
    """Broken metadata show no owner."""
    assert body.read_ownership(metadata) is None
