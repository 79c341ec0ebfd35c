"""A named reset before a run on Spark: made once, and carried on by the run's marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.events import GroupReset
from ehkafka.records import TopicPartition
from ehkafka.run import resetting
from ehkafka.spark.engine.group.group import Group
from ehkafka.spark.source.offsets import StreamOffset
from ehkafka.telemetry.bus import EventBus
from tests.kit.events import Events

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

P1 = TopicPartition("t", 1)


def test_a_run_goes_on_after_the_reset_of_its_name(
    app_at: Callable[..., Any],
    lab: Any,
    produced: Callable[..., int],
    group_commits: Callable[..., dict[int, tuple[int, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first run begins at `start` although the group has a commit, the second where that one ended."""
    monkeypatch.setattr(resetting, "SETTLE_S", 0.1)
    produced(400)
    group_commits({1: (4, "")})
    begun, reported = [], Events()
    for _ in range(2):
        app = app_at(reset="june")
        app.handler("t")(lambda _record: None)
        bus = EventBus((reported,))
        bus.start()
        group = Group(lab.parts_of(app), bus, lambda _error: None)
        group.open()
        try:
            group.reset()
            starts = group.begin()
            begun.append(starts[P1])
            group.claim(starts)
            group.commits.note(StreamOffset({P1: 6}), {})
            assert group.commits.finish(5.0) == []
        finally:
            group.close(deadline_s=0.0)
            bus.close(1.0)
    assert begun == [0, 6]
    assert [event.once_as for event in reported.of(GroupReset)] == ["june"]
