"""The stages of the integration tests, for faults between members and a broker.

Rows are scaled for a quick run: durations by ten or more, bounds alike. `EHKAFKA_FAULTS_SCALE=10` makes
them so many times longer, and `tests.kit.fault_runs` gives each run another seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.stage import Stage, stage_on
from tests.kit.topic_read import letters_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import ehkafka
    from ehkafka.testing import EmbeddedBroker

__all__ = ["stage_on"]

# A member of an embedded group waits for the session time-out less one second before it is in.
EMBEDDED_GROUP = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}
# Each partition holds back its commit until a poison key's head ends: quick commits show it at once.
COMMIT_INTERVAL_S = 0.1


class EmbeddedStage(Stage):
    """A stage on an embedded broker, where the protocol does not matter."""

    def app(self, handler: Callable[[Any], object] | None = None, **options: Any) -> ehkafka.App:
        """Return an app of the group; it keeps a history and is stopped."""
        options.setdefault("commit_interval_s", COMMIT_INTERVAL_S)
        options["consumer"] = {**EMBEDDED_GROUP, **options.get("consumer", {})}
        return super().app(handler, **options)

    def letters(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        """See `letters_of`."""
        return letters_of(self.broker.bootstrap, topic)


@pytest.fixture
def embedded_stage(
    embedded_broker_factory: Callable[..., EmbeddedBroker], tmp_path: Path
) -> Iterator[Callable[..., EmbeddedStage]]:
    """Return what sets a stage on an embedded broker: its topic of so many partitions, and others of one."""
    stages: list[EmbeddedStage] = []

    def set_up(partitions: int = 8, *others: str) -> EmbeddedStage:
        broker = embedded_broker_factory(dict.fromkeys(others, 1))
        stages.append(EmbeddedStage(broker, tmp_path))
        broker.create_topic(stages[-1].topic, partitions)
        return stages[-1]

    yield set_up
    for stage in stages:
        stage.close()
