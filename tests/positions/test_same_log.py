"""Whether a log is still the one that a position belongs to: what disproves it, what proves nothing."""

from __future__ import annotations

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.same_log import Reading, disproof, judge
from ehkafka.progress.metadata import LogFacts

ID, OTHER_ID = b"\x01" * 16, b"\x02" * 16
WITNESS = (299, 1_700_000_000_000)
LATER = (299, 1_700_000_000_001)


@pytest.mark.parametrize(
    ("facts", "topic_id", "reading", "says"),
    [
        (LogFacts(topic_id=ID, witness=WITNESS), ID, Reading(LATER), None),
        (LogFacts(topic_id=ID, witness=WITNESS), OTHER_ID, Reading(WITNESS), "had the id 01010101-"),
        (LogFacts(topic_id=ID), None, None, None),
        (LogFacts(topic_id=ID, witness=WITNESS), None, Reading(LATER), "the record at offset 299 had"),
        (LogFacts(witness=WITNESS), OTHER_ID, Reading(LATER), "the record at offset 299 had the"),
        (LogFacts(witness=WITNESS), None, Reading(WITNESS), None),
        # Not read in time, deleted by retention, compacted away: nothing is disproved.
        (LogFacts(witness=WITNESS), None, None, None),
        (LogFacts(witness=WITNESS), None, Reading(None), None),
        (LogFacts(witness=WITNESS), None, Reading((301, 5)), None),
        (
            LogFacts(witness=WITNESS),
            None,
            Reading(None, 120),
            "the log ends at offset 120, but earlier, a record was read at offset 299",
        ),
        (LogFacts(), ID, Reading(LATER), None),
    ],
)
def test_an_id_decides_then_the_witness(
    facts: LogFacts, topic_id: bytes | None, reading: Reading | None, says: str | None
) -> None:
    """Another id, another timestamp, a log that ends before: nothing else disproves."""
    found = disproof(facts, topic_id, reading)
    assert found is None if says is None else says in (found or "")


@pytest.mark.parametrize(
    ("topic_id", "reading", "is_same", "says"),
    [
        (ID, None, True, "the topic still has the id"),
        (OTHER_ID, Reading(WITNESS), False, "had the id"),
        (None, Reading(WITNESS), True, "still has the timestamp"),
        (None, Reading(LATER), False, "had the timestamp"),
        (None, Reading(None), False, "is gone"),
        (None, None, False, "is gone"),
    ],
)
def test_a_mirror_decides_only_where_the_log_is_proved(
    topic_id: bytes | None, reading: Reading | None, *, is_same: bool, says: str
) -> None:
    """Without a commit a missing witness is no proof: to begin there could skip records."""
    checkpoint = Checkpoint(next_offset=300, facts=LogFacts(witness=WITNESS, topic_id=ID))
    found = judge(checkpoint, LogBounds(0, 800), reading, topic_id)
    assert found.is_same is is_same
    assert says in found.reason
