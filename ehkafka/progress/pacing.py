"""Which pace an app's commits keep: what the settings ask for, bounded by what the service takes.

Values in, values out; called once per start by the runtime, which tells the user of a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.endpoint.limits import COMMIT_IDLE_S, COMMIT_INTERVAL_S_MIN
from ehkafka.events import CommitPaceBounded
from ehkafka.progress.ledger import CommitPacing

if TYPE_CHECKING:
    from ehkafka.settings import Settings


def commit_pacing(settings: Settings, *, is_event_hubs: bool) -> CommitPacing:
    """Return the pace of the asynchronous commits.

    On Event Hubs they are at least `COMMIT_INTERVAL_S_MIN` apart whatever is asked, and an unchanged
    position is sent again after `COMMIT_IDLE_S` unless the settings say when.
    """
    interval_s, every_records = settings.commit_interval_s, settings.commit_every_records
    if not is_event_hubs:
        return CommitPacing(interval_s, every_records, 0.0, settings.commit_idle_s)
    return CommitPacing(
        max(interval_s, COMMIT_INTERVAL_S_MIN),
        every_records,
        COMMIT_INTERVAL_S_MIN,
        settings.commit_idle_s or COMMIT_IDLE_S,
    )


def pace_bound(settings: Settings, pacing: CommitPacing) -> CommitPaceBounded | None:
    """Return what to tell the user whose settings ask for more commits than the pace allows."""
    if not pacing.spacing_s:
        return None
    asked = settings.commit_interval_s < pacing.spacing_s
    if not asked and settings.commit_every_records is None:
        return None
    return CommitPaceBounded(settings.commit_interval_s, settings.commit_every_records, pacing.spacing_s)
