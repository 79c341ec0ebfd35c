"""How much a consumer fetches ahead: no more than fits with the backlog, and with other apps. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

# Enough for a handler that does nothing: half of it costs that one a sixth of its speed.
RECORDS_MAX: Final = 10_000
_RECORDS_MIN: Final = 1_000
# librdkafka's own default; and what one answer brings anyway.
_KILOBYTES_MAX, _KILOBYTES_MIN = 65_536, 4_096


class Ahead(NamedTuple):
    """Records and kilobytes of librdkafka's queue, over all partitions of one consumer."""

    records: int = RECORDS_MAX
    kilobytes: int = _KILOBYTES_MAX

    @classmethod
    def of(cls, backlog_records_max: int, backlog_bytes_max: int, apps: int) -> Ahead:
        """Return half of the backlog's limits, divided by the number of apps in the process."""
        records = backlog_records_max // 2 // apps
        kilobytes = backlog_bytes_max // 2 // 1024 // apps
        return cls(
            min(RECORDS_MAX, max(_RECORDS_MIN, records)),
            min(_KILOBYTES_MAX, max(_KILOBYTES_MIN, kilobytes)),
        )

    @property
    def properties(self) -> dict[str, int]:
        """Return them by their names in librdkafka."""
        return {"queued.min.messages": self.records, "queued.max.messages.kbytes": self.kilobytes}


AHEAD: Final = Ahead()
"""Of one app with the default limits."""

OF_A_COMMAND: Final = Ahead(_RECORDS_MIN, _KILOBYTES_MIN)
"""Of a command that reads at a person's pace: little, of records with large keys and headers too."""
