"""Exceptions by which a handler decides on its record instead of failing.

Exceptions by mechanism, not by meaning: none is an `EhkafkaError`, and none is logged as an error.
"""

from __future__ import annotations

# Each class says that it is in `ehkafka`, where users import it: so dead letters and tracebacks name it.
PUBLIC_ROOM = "ehkafka"
# A retry later than this is a mistake of units: no app keeps a partition's commit back for a week.
DELAY_S_MAX = 7 * 24 * 3600.0


class RecordSignal(Exception):  # noqa: N818 - it tells an intention, not an error
    """Base of what a handler may raise about its record."""


class RetryLater(RecordSignal):
    """Call the handler for this record again after some time; meanwhile the key waits, other keys continue.

    Such a call does not count for `Retry(attempts=…)`, but `record.attempt` grows.

    - `after_s` (seconds, required): how long to wait, from 0 to a week. Raises `ValueError` for more.
    - `reason` (default `"the handler asked for it"`): a text for the log and the event.
    """

    __module__ = PUBLIC_ROOM

    def __init__(self, after_s: float, reason: str = "the handler asked for it") -> None:
        if isinstance(after_s, bool) or not isinstance(after_s, int | float):
            raise TypeError(f"RetryLater(after_s={after_s!r:.80}): give a number of seconds")
        if not 0 <= after_s <= DELAY_S_MAX:
            raise ValueError(
                f"RetryLater(after_s={after_s!r}): give seconds from 0 to {DELAY_S_MAX:.0f}, a week"
            )
        super().__init__(reason)
        self.after_s = float(after_s)
        self.reason = reason

    def __reduce__(self) -> tuple[type[RetryLater], tuple[float, str]]:
        """Come whole out of a worker process: an exception is rebuilt from its text alone by default."""
        return type(self), (self.after_s, self.reason)


class SkipRecord(RecordSignal):
    """Skip this record: the app counts and logs it, and the commit can move past the record.

    - `reason` (required): a text for the log and the event.
    """

    __module__ = PUBLIC_ROOM

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RejectRecord(RecordSignal):
    """Fail this record permanently: without a further attempt, `on_failure` decides.

    - `reason` (required): a text for the log, the event and the dead letter.
    """

    __module__ = PUBLIC_ROOM

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
