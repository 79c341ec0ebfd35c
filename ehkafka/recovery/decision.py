"""Decisions about a failed record: values that a policy returns and the dispatcher carries out.

Pure. A decision is made on the worker's thread, before the lane is handed in, so that no user code runs
on the poll thread or under the lock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HoldHead:
    """Keep the record at its lane's head without an outcome: nothing is committed past it."""

    reason: str
    # The app is being stopped because of it (policy `Stop()`).
    stops_app: bool = False


@dataclass(frozen=True, slots=True)
class RetryHead:
    """Park the lane and call the handler again when the time has come."""

    after_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class SkipHead:
    """Give the record the outcome *skipped*: the watermark may pass it."""

    reason: str


Decision = HoldHead | RetryHead | SkipHead
