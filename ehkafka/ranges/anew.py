"""How it shows that a topic was deleted and recreated under its name, by its id or by records. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.positions.same_log import disproof, id_text
from ehkafka.progress.metadata import LogFacts
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.positions.same_log import Reading, WitnessRecord
    from ehkafka.records import TopicPartition


def id_replaced(topic: str, was: bytes, now: bytes) -> str:
    """Return what tells by its id that a topic was recreated."""
    return f"topic {topic!r} had the id {id_text(was)} and has {id_text(now)} now"


def records_replaced(topic: str, reasons: Mapping[TopicPartition, str]) -> str:
    """Return what tells by records that a topic was recreated; the first partition of `reasons` is named."""
    first = min(reasons)
    more = f", and so in {counted(len(reasons) - 1, 'more partition')}" if len(reasons) > 1 else ""
    return f"topic {topic!r} holds other records (in {first}: {reasons[first]}{more})"


def made_anew(
    carried: Mapping[TopicPartition, WitnessRecord], readings: Mapping[TopicPartition, Reading]
) -> dict[str, dict[TopicPartition, str]]:
    """Return the topics whose logs are other ones, and by partition what tells.

    `carried` are records that were read, `readings` the records in their place now. One log that is too short
    while another one of its topic has its record still was cut, and no more.
    """
    found: dict[str, dict[TopicPartition, str]] = {}
    for partition, reading in readings.items():
        if reason := disproof(LogFacts(witness=carried[partition]), None, reading):
            found.setdefault(partition.topic, {})[partition] = reason
    same = {p.topic for p, reading in readings.items() if reading.first == carried[p]}
    return {
        topic: reasons
        for topic, reasons in found.items()
        if topic not in same or any(readings[one].end is None for one in reasons)
    }
