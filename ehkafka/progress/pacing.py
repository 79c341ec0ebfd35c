"""The pace of an app's commits: the settings, bounded by the limits of the service.

Values in, values out; the runtime calls it once per start and tells the user of a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.endpoint.properties.limits import COMMIT_IDLE_S, COMMIT_INTERVAL_S_MIN
from ehkafka.events import CommitPaceBounded
from ehkafka.progress.ledger import CommitPacing

if TYPE_CHECKING:
    from ehkafka.settings import Settings

COMMIT_INTERVAL_S = 1.0
# Outputs are seen once their transaction is committed; one costs the broker some ten milliseconds.
TRANSACTION_INTERVAL_S = 0.1
# While an app catches up, a kill repeats what ended since the last commit. Apache Kafka takes a commit in a
# millisecond or two; twenty a second are nothing to it.
CATCHING_UP_RECORDS = 100
CATCHING_UP_SPACING_S = 0.05


def commit_pacing(settings: Settings, *, is_event_hubs: bool) -> CommitPacing:
    """Return the pace of the asynchronous commits.

    Elsewhere than on Event Hubs, and unless the settings ask for a pace, they follow the results.
    On Event Hubs they are at least `COMMIT_INTERVAL_S_MIN` apart whatever is asked, and an unchanged
    position is sent again after `COMMIT_IDLE_S` unless the settings have another time.
    """
    interval_s, every_records = settings.commit_interval_s, settings.commit_every_records
    if interval_s is None and settings.exactly_once and not is_event_hubs:
        interval_s = TRANSACTION_INTERVAL_S
    if interval_s is None:
        if every_records is None and not is_event_hubs:
            return CommitPacing(
                COMMIT_INTERVAL_S,
                CATCHING_UP_RECORDS,
                CATCHING_UP_SPACING_S,
                settings.commit_idle_s,
                early_at_a_share=True,
            )
        interval_s = COMMIT_INTERVAL_S
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
    every_records = settings.commit_every_records
    if settings.commit_interval_s is None and every_records is None:
        return None
    interval_s = settings.commit_interval_s or COMMIT_INTERVAL_S
    if interval_s >= pacing.spacing_s and every_records is None:
        return None
    return CommitPaceBounded(interval_s, every_records, pacing.spacing_s)
