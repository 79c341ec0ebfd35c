"""Row 23: a topic that is deleted and recreated under its name, and whose new log is longer than the old.

Positions and commits of the old log lie inside of the new one, so no offset is out of range. What tells the
logs apart is the topic's id, which commits carry, and the witness, one record that was finished.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.events import LogReplaced
from ehkafka.intake.log_watch import STANDSTILL_S
from ehkafka.progress.metadata import facts_of
from tests.integration.logs import commit_of, fill, make_anew, put_commit
from tests.kit.checker.history_event import Finished
from tests.kit.checker.history_file import read_history
from tests.kit.events import Events
from tests.kit.faults.network import Network
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker

OLD, NEW = 300, 800
ALL_NEW = {b"new-%d" % number for number in range(NEW)}


@pytest.fixture
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let apps ask each second whose log they read. The client would see that the topic is gone meanwhile."""
    monkeypatch.setattr("ehkafka.run.connection.refresh_s", lambda _properties: 1.0)


def missing(values: set[bytes]) -> str:
    """Say how many records of the new log were not handled."""
    return f"FACT: {len(ALL_NEW - values)} of {NEW} records of the new log were never handled"


def work_off_old(stage: Any, app: Any) -> None:
    """Let an app or a member finish and commit the old log."""
    fill(stage, "old", OLD)
    app.start()
    stage.wait_until_committed({0: OLD})
    wait_until(lambda: facts_of(OLD, commit_of(stage).metadata).topic_id, "a commit with the topic's id")


@pytest.mark.usefixtures("asks_often")
def test_a_running_member_begins_the_new_log_at_its_beginning(narrow: Any) -> None:
    """Row 23: re-created between two refreshes of the metadata; the client hears nothing of it."""
    values: set[bytes] = set()
    replaced = Events()
    app = narrow.app(
        lambda record: values.add(record.value()),
        commit_interval_s=0.1,
        on_out_of_range="earliest",
    )
    app.add_hook(replaced)
    work_off_old(narrow, app)
    make_anew(narrow, NEW)
    narrow.wait_until_committed({0: NEW})
    wait_until(lambda: values >= ALL_NEW, lambda: missing(values))
    narrow.wait_until_committed({0: NEW})
    [reported] = replaced.of(LogReplaced)
    assert (reported.partition, reported.resumed_at) == ((narrow.topic, 0), 0)
    # Where the broker does not name the topic in time, as while it is made, the witness tells.
    assert "had the id" in reported.reason or "the record at" in reported.reason
    app.stop()


@pytest.mark.usefixtures("asks_often")
def test_a_running_member_stops_by_default(narrow: Any) -> None:
    """`on_out_of_range="stop"`: it ends, says why, and a restart ends again: the commit is of another log."""
    app = narrow.app(commit_interval_s=0.1)
    work_off_old(narrow, app)
    make_anew(narrow, NEW)
    assert app.wait(20.0), "FACT: the app went on in the middle of another log, and its health was green"
    with pytest.raises(ehkafka.errors.OffsetGapError, match="to the old topic"):
        app.stop()
    again = narrow.app()
    again.start()
    assert again.wait(20.0)
    with pytest.raises(ehkafka.errors.OffsetGapError, match=r"had the id .* on_out_of_range='earliest'"):
        again.stop()


def test_a_member_that_was_frozen_begins_the_new_log_at_its_beginning(narrow: Any) -> None:
    """Row 23: stopped by a signal while the topic is made anew, for less than its session lasts.

    It has asked for the topic's id before, so it asks again only because it stood still for so long. After a
    shorter stop it would ask at the next refresh of the metadata, up to five minutes later.
    """
    member = narrow.member(
        "frozen",
        *("--setting", "commit_interval_s=0.1", "--setting", 'on_out_of_range="earliest"'),
        consumer={"session.timeout.ms": 30_000},
    )
    work_off_old(narrow, member)
    member.suspend()
    make_anew(narrow, NEW)
    time.sleep(STANDSTILL_S + 1.0)
    member.resume()
    wait_until(lambda: handled_both(member), lambda: f"FACT: {few(member)}\n{narrow.logs()}")
    narrow.stop_members()


@pytest.mark.parametrize("says", ["commit", "mirror"])
def test_a_commit_of_the_old_log_does_not_decide(
    narrow: Any, metadata_room: Callable[[int], None], says: str
) -> None:
    """Row 23: it survives, as of a member that commits once more; it, or the mirror, has the topic's id."""
    store = MemoryStore()
    settings: dict[str, Any] = {"commit_interval_s": 0.1, "on_out_of_range": "earliest"}
    if says == "mirror":
        metadata_room(0)
        settings["mirror"] = StoreMirror(store=store, interval_s=0.1, namespace="ns")
    first = narrow.app(**settings)

    def mirrored() -> Any:
        blob = store.read(f"ns/{narrow.topic}/{narrow.group}/checkpoint/0")
        return blob and read_checkpoint(blob.body)

    if says == "commit":
        work_off_old(narrow, first)
    else:
        fill(narrow, "old", OLD)
        first.start()
        wait_until(
            lambda: (one := mirrored()) and one.next_offset == OLD and one.facts.topic_id, "its mirror"
        )
    first.stop()
    text = commit_of(narrow).metadata
    make_anew(narrow, NEW)
    put_commit(narrow, OLD, text)
    values: set[bytes] = set()
    replaced = Events()
    second = narrow.app(lambda record: values.add(record.value()), **settings)
    second.add_hook(replaced)
    second.start()
    narrow.wait_until_committed({0: NEW})
    second.stop()
    assert values >= ALL_NEW, missing(values)
    assert [(one.next_offset, one.resumed_at) for one in replaced.of(LogReplaced)] == [(OLD, 0)]
    assert says == "commit" or mirrored().next_offset == NEW


def finishes(member: Any) -> dict[int, int]:
    """Return how often a member has finished each offset."""
    return dict(Counter(e.offset for e in read_history(member.histories) if isinstance(e, Finished)))


def handled_both(member: Any) -> bool:
    """Tell whether a member has handled the old log and all of the new one."""
    counts = finishes(member)
    return all(counts.get(offset, 0) >= (2 if offset < OLD else 1) for offset in range(NEW))


def few(member: Any) -> str:
    """Say what a member did not handle of the new log."""
    counts = finishes(member)
    once = sum(counts.get(offset) == 1 for offset in range(OLD))
    return f"of offsets 0 to {OLD - 1}, {once} were handled of the old log only; {len(counts)} offsets in all"


def test_a_member_that_was_cut_off_begins_the_new_log_at_its_beginning(
    stage_on: Callable[..., Any], far_kafka: tuple[Any, Any]
) -> None:
    """Row 23: no broker answers while the topic is made anew; no refresh of the metadata is near."""
    broker, proxy = far_kafka
    stage = stage_on(broker, 1)
    values: set[bytes] = set()
    app = stage.app(
        lambda record: values.add(record.value()),
        endpoint=ehkafka.Endpoint.kafka(proxy.address),
        commit_interval_s=0.1,
        on_out_of_range="earliest",
        consumer={"session.timeout.ms": 30_000, "reconnect.backoff.max.ms": 500},
    )
    work_off_old(stage, app)
    proxy.network = Network(refuse=True)
    proxy.cut()
    make_anew(stage, NEW)
    proxy.heal()
    wait_until(lambda: values >= ALL_NEW, lambda: missing(values), timeout_s=60.0)
    app.stop()
