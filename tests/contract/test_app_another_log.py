"""Row 23 where the broker has no topic ids, as Event Hubs: a witness record tells the logs apart."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.events import LogReplaced
from ehkafka.intake.log_watch import LogWatch
from ehkafka.progress.metadata import facts_of
from tests.contract.conftest import ends_with
from tests.contract.mirrored import commit, commit_of, text_of
from tests.kit.waiting import must_stay, wait_until

OLD, NEW = 5, 9
LONG_AGO_MS = 1_600_000_000_000


@pytest.fixture(autouse=True)
def offsets_come_twice(lab: Any) -> None:
    """Tell the judge of histories, who knows one log of a name, to leave these alone."""
    lab.judged = False


@pytest.fixture
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the logs with each of the poll thread's slow looks."""
    monkeypatch.setattr("ehkafka.run.log_identity.refresh_s", lambda _properties: 0.1)


def keys(recorder: Any) -> set[bytes]:
    """Return what was handled."""
    return set(recorder.finished_keys)


def words(prefix: str, count: int) -> str:
    """Return keys for `lab.produce`."""
    return " ".join(f"{prefix}{number}" for number in range(count))


def make_anew(lab: Any) -> None:
    """Delete the topic and make it again with a longer log."""
    lab.broker.delete_topic("t")
    lab.broker.create_topic("t", 1)
    lab.produce(words("n", NEW))


@pytest.mark.usefixtures("asks_often")
def test_a_running_app_finds_another_record_where_its_witness_was(
    lab: Any, recorder: Any, events: Any
) -> None:
    """All of the new log is handled, though the old position lies inside of it."""
    lab.produce(words("o", OLD))
    lab.start(recorder, on_out_of_range="earliest", commit_interval_s=0.1)
    wait_until(lambda: lab.committed() == OLD)
    make_anew(lab)
    everything = {f"n{number}".encode() for number in range(NEW)}
    wait_until(lambda: keys(recorder) >= everything)
    wait_until(lambda: lab.committed() == NEW)
    [reported] = events.of(LogReplaced)
    assert "the record at" in reported.reason
    assert reported.resumed_at == 0


@pytest.mark.parametrize("policy", ["stop", "earliest"])
def test_a_commit_whose_witness_is_another_record_does_not_decide(
    lab: Any, recorder: Any, events: Any, policy: str
) -> None:
    """The app begins at it, for the witness is read beside; then the policy decides."""
    lab.produce(words("n", NEW))
    commit(lab, OLD, metadata=text_of(OLD, witness=(OLD - 1, LONG_AGO_MS)))
    app = lab.start(recorder, on_out_of_range=policy)
    if policy == "stop":
        ends_with(app, ehkafka.errors.OffsetGapError, r"another log.*2020-09-13T12:26:40")
    else:
        wait_until(lambda: keys(recorder) >= {f"n{number}".encode() for number in range(NEW)})
    [reported] = events.of(LogReplaced)
    assert reported.resumed_at == (0 if policy == "earliest" else None)


def test_a_commit_keeps_the_witness_that_was_not_proved(
    lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the look: its last commits still tell that the log is another one."""
    monkeypatch.setattr(LogWatch, "check", lambda _self: {})
    lab.produce(words("n", NEW))
    witness = (OLD - 1, LONG_AGO_MS)
    commit(lab, OLD, metadata=text_of(OLD, witness=witness))
    app = lab.start(recorder, commit_interval_s=0.1)
    wait_until(lambda: lab.committed() == NEW)
    app.stop()
    assert facts_of(*commit_of(lab)).witness == witness


def test_a_held_lane_of_the_old_log_ends_before_the_new_one_begins(
    lab: Any, recorder: Any, events: Any
) -> None:
    """What runs of the old log has its outcome first; meanwhile nothing more of the new one is read."""
    lab.produce(words("n", NEW))
    commit(lab, OLD, metadata=text_of(OLD, witness=(OLD - 1, LONG_AGO_MS)))
    gate = recorder.block(lambda record: record.offset() == NEW - 1)
    lab.start(recorder, on_out_of_range="earliest", workers=2)
    wait_until(lambda: events.of(LogReplaced))
    must_stay(lambda: 0 not in recorder.offsets())
    gate.set()
    wait_until(lambda: recorder.offsets().count(NEW - 1) == 2)
    assert sorted(recorder.offsets())[:2] == [0, 1]
