"""Exactly once, as a reader of committed transactions sees it, at the worst moments of a transaction.

`tests/proof` has members and brokers that fail at any moment.
`EHKAFKA_LONG=1` leaves rules out, too: without each of them a reader sees what is wrong.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.sent import (
    OUTPUT_PARTITIONS,
    TRANSACTION_MS,
    exactly_once,
    settings,
    verdict,
)
from tests.kit.checker import history_event as events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

SHORT = pytest.mark.timeout(600)
IS_LONG = os.environ.get("EHKAFKA_LONG") == "1"
KAFKA_SESSION_MS = 1500
# A frozen member's session is over by then, and so is its transaction, where the broker looks for that.
FROZEN_S = 5.0
SLACK_S = 30.0
# How often `own_broker` looks for transactions that are too old.
OWN_CHECKS_S = 1.0
# What two members get for a few records.
PAIR_S = 90.0
# Longer than any test keeps one open.
LONG_TRANSACTION_MS = 60_000


class Pair:
    """Two members of a group, the first one with a hook; the test starts them and produces."""

    def __init__(self, stage: Any, folder: Path) -> None:
        self.stage = stage
        self._folder = folder
        stage.broker.create_topic(f"{stage.topic}-out", OUTPUT_PARTITIONS)
        stage.broker.create_topic(f"{stage.topic}-dead", 1)
        self.load = stage.load()

    def member(self, name: str, hook: str | None = None, *more: str, transaction_ms: int = 0) -> Any:
        """Return one of them, not started."""
        to = ["--to", f"{self.stage.topic}-out", "--dead", f"{self.stage.topic}-dead"]
        hooks = [] if hook is None else ["--hook", f"{hook}={self._folder}"]
        pace = exactly_once(transaction_ms or TRANSACTION_MS)
        session = {"session.timeout.ms": KAFKA_SESSION_MS}
        return self.stage.member(name, *pace, *to, *hooks, *more, consumer=session)

    def wait_until_reached(self) -> None:
        """Wait until a transaction of the first one stands still."""
        wait_until((self._folder / "reached").exists, self.stage.logs, PAIR_S)

    def go(self) -> None:
        """Let it go on."""
        (self._folder / "go").touch()

    def let_go(self) -> None:
        """Let it go on, and wait until it is over."""
        self.go()
        wait_until((self._folder / "over").exists, self.stage.logs, PAIR_S)

    def wait_until_finished(self, member: Any, count: int) -> None:
        """Wait until a member has finished so many records."""
        wait_until(lambda: member.count(events.Finished) >= count, self.stage.logs, PAIR_S)

    def verdict(self, *members: Any, is_committed: bool = True) -> list[str]:
        """Wait until all is committed, end the members, and return what is wrong.

        Not `is_committed`: a rule is left out, and a commit that comes too late may have taken the group
        back. No member commits again then what it has committed.
        """
        if is_committed:
            self.stage.wait_until_committed(self.load.ends, PAIR_S)
        self.stage.stop_members(*members, timeout_s=PAIR_S)
        return verdict(self.stage)


def epochs_begun(member: Any) -> set[int]:
    """Return which epochs a member has begun."""
    return {event.epoch for event in member.events() if isinstance(event, events.Assigned)}


def right_and(hook: str | None, without_a_rule: str) -> pytest.MarkDecorator:
    """Run a test with a hook and, in a long run, with one that leaves a rule out."""
    wrong = [(without_a_rule, False)] if IS_LONG else []
    return pytest.mark.parametrize(("hook", "is_right"), [(hook, True), *wrong])


@SHORT
def test_a_broker_that_is_gone_in_the_middle_of_a_transaction(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, tmp_path: Path
) -> None:
    """It goes on with the same transaction once the broker is back, or finds out what has become of it."""
    pair = Pair(stage_on(own_broker, 8), tmp_path)
    pair.load.produce(200)
    first = pair.member("first", "before-commit", transaction_ms=10_000)
    first.start()
    pair.wait_until_reached()
    own_broker.kill()
    pair.go()
    # It asks in vain meanwhile.
    time.sleep(2.0)
    own_broker.restart()
    assert pair.verdict(first) == []


@SHORT
def test_a_member_that_is_frozen_for_longer_than_its_transaction(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, tmp_path: Path
) -> None:
    """The broker has aborted it, and the group has no other member: this one sends all of it again."""
    pair = Pair(stage_on(own_broker, 8), tmp_path)
    pair.load.produce(200)
    # Its session goes on.
    first = pair.member("first", "before-commit", "--consumer", "session.timeout.ms=30000")
    first.start()
    pair.wait_until_reached()
    first.suspend()
    time.sleep(FROZEN_S)
    first.resume()
    pair.let_go()
    assert pair.verdict(first) == []


@SHORT
@right_and("before-offsets", "rule-c-off")
def test_a_transaction_ends_before_its_partition_is_anothers(
    stage_on: Callable[..., Any], kafka: KafkaBroker, tmp_path: Path, hook: str, is_right: bool
) -> None:
    """Without that rule the next owner repeats what is committed afterwards."""
    pair = Pair(stage_on(kafka, 2), tmp_path)
    first = pair.member("first", hook, *settings(commit_interval_s=60), transaction_ms=LONG_TRANSACTION_MS)
    first.start()
    # There is no other commit before the revoke: the next one is due in a minute.
    wait_until(first.assigned, pair.stage.logs, PAIR_S)
    time.sleep(1.0)
    pair.load.produce(200)
    pair.wait_until_finished(first, 200)
    second = pair.member("second")
    second.start()
    pair.wait_until_reached()
    if hook == "before-offsets":
        # Its callback waits for the transaction, so the other one has nothing.
        time.sleep(2.0)
        assert not second.assigned()
    else:
        wait_until(second.assigned, pair.stage.logs, PAIR_S)
        (partition,) = second.assigned()
        pair.wait_until_finished(second, pair.load.ends[partition.partition])
    pair.let_go()
    pair.stage.stop_members(first, timeout_s=PAIR_S)
    wrong = pair.verdict(second)
    assert (not wrong) is is_right, f"FACT: {wrong[:5]}"


@SHORT
@right_and("before-offsets", "rule-c-off")
def test_a_frozen_member_commits_nothing_once_another_has_its_partitions(
    stage_on: Callable[..., Any], kafka: KafkaBroker, tmp_path: Path, hook: str, is_right: bool
) -> None:
    """Its transaction is still open: only that it is no member any more keeps it from being committed."""
    pair = Pair(stage_on(kafka, 2), tmp_path)
    first = pair.member("first", hook, transaction_ms=LONG_TRANSACTION_MS)
    pair.load.produce(200)
    first.start()
    pair.wait_until_reached()
    first.suspend()
    second = pair.member("second")
    second.start()
    pair.wait_until_finished(second, 200)
    first.resume()
    # It is a member again, so the broker takes what it says in its new name.
    wait_until(lambda: epochs_begun(first) == {1, 2}, pair.stage.logs, PAIR_S)
    pair.let_go()
    wrong = pair.verdict(first, second, is_committed=is_right)
    assert any("came again" in line for line in wrong) is not is_right, f"FACT: {wrong[:5]}"
    assert (not wrong) is is_right, f"FACT: {wrong[:5]}"


@SHORT
@right_and(None, "rule-b-off")
def test_what_is_sent_is_what_the_commit_says(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, tmp_path: Path, hook: str, is_right: bool
) -> None:
    """Without that rule, what is finished above a commit that does not say so is sent again after a kill."""
    pair = Pair(stage_on(own_broker, 1), tmp_path)
    first = pair.member("first", hook, "--stuck", "10", "--metadata-bytes", "0")
    pair.load.produce(200)
    first.start()
    pair.wait_until_finished(first, 100)
    # Some commits more.
    time.sleep(2.0)
    first.kill()
    second = pair.member("second")
    second.start()
    wrong = pair.verdict(second)
    assert (not wrong) is is_right, f"FACT: {wrong[:5]}"


@SHORT
def test_who_takes_over_waits_for_the_transaction_of_who_was_killed(
    stage_on: Callable[..., Any], own_broker: KafkaBroker, tmp_path: Path
) -> None:
    """As long as the broker lets it be open, and looks for such, or as the session lasts."""
    pair = Pair(stage_on(own_broker, 8), tmp_path)
    first, second = pair.member("first", "before-commit"), pair.member("second")
    pair.load.produce(200)
    first.start()
    pair.wait_until_reached()
    began_s = time.monotonic()
    first.kill()
    second.start()
    pair.stage.wait_until_committed(pair.load.ends, PAIR_S)
    took_s = time.monotonic() - began_s
    assert pair.verdict(second) == []
    open_s = TRANSACTION_MS / 1000 + OWN_CHECKS_S
    assert took_s < max(KAFKA_SESSION_MS / 1000, open_s) + 5.0 + SLACK_S, pair.stage.logs()
