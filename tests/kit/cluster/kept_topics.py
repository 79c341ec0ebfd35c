"""Keeps what a broker has on its disk, for `kafka-dump-log` or a look of one's own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.testing.kafka.folder import KafkaFolder


def copy_topics(folder: KafkaFolder, target: Path) -> None:
    """Copy the segments of all partitions; the broker may run meanwhile."""
    for segment in (folder.path / "data").glob("*-*/*.log"):
        (target / segment.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(segment, target / segment.parent.name / segment.name)
