"""A snapshot that another process took and said as plain values, made a snapshot again. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.records import TopicPartition
from ehkafka.telemetry.snapshot import (
    HandlerSnapshot,
    MemberSnapshot,
    OutlivingCall,
    PartitionSnapshot,
    Snapshot,
    Unfinished,
    Unreadable,
)
from ehkafka.workers.attempt_clock import OverdueAttempt

if TYPE_CHECKING:
    from collections.abc import Mapping

Made = TypeVar("Made")


def snapshot_from(plain: Mapping[str, Any]) -> Snapshot:
    """Return what `Snapshot.as_dict` said; fields of a newer version are left out."""
    return _made(
        Snapshot,
        plain,
        partitions=tuple(map(_partition, plain["partitions"])),
        overdue=tuple(map(_overdue, plain["overdue"])),
        outliving=tuple(map(_outliving, plain.get("outliving", ()))),
        counters=dict(plain["counters"]),
        mirror=None if plain["mirror"] is None else _made(MirrorState, plain["mirror"]),
        members=tuple(map(_member, plain["members"])),
        handlers=tuple(map(_handler, plain.get("handlers", ()))),
    )


def _partition(plain: Mapping[str, Any]) -> PartitionSnapshot:
    oldest, unreadable = plain["oldest"], plain.get("unreadable")
    return _made(
        PartitionSnapshot,
        plain,
        partition=TopicPartition(**plain["partition"]),
        oldest=None if oldest is None else _made(Unfinished, oldest),
        unreadable=None if unreadable is None else _made(Unreadable, unreadable),
    )


def _handler(plain: Mapping[str, Any]) -> HandlerSnapshot:
    bounds = plain.get("workers_auto")
    return _made(
        HandlerSnapshot,
        plain,
        topics=tuple(plain["topics"]),
        attempts=dict(plain["attempts"]),
        call_counts=tuple(plain["call_counts"]),
        workers_auto=None if bounds is None else tuple(bounds),
    )


def _overdue(plain: Mapping[str, Any]) -> OverdueAttempt:
    return _made(OverdueAttempt, plain, partition=TopicPartition(**plain["partition"]))


def _outliving(plain: Mapping[str, Any]) -> OutlivingCall:
    return _made(OutlivingCall, plain, partition=TopicPartition(**plain["partition"]))


def _member(plain: Mapping[str, Any]) -> MemberSnapshot:
    inner = plain["snapshot"]
    return _made(MemberSnapshot, plain, snapshot=None if inner is None else snapshot_from(inner))


def _made(kind: type[Made], plain: Mapping[str, Any], **others: Any) -> Made:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in plain.items() if name in known} | others)
