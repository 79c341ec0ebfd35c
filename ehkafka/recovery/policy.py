"""Failure policies: what a handler's raise leads to once no retry is left.

Values the user gives as `on_failure=`. More policies (skip, dead letters, retries) join these two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop the app with an error; nothing at or above the record is committed. The default."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the record at its lane's head; its key waits, other keys go on, health turns red.

    Nothing is committed past it in its partition, so all of that is redelivered after a restart.
    """


FailurePolicy = Stop | Hold
