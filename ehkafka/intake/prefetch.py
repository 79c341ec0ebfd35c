"""Whether the client's queue can outgrow what it is meant to hold. Pure; the poll thread's alone.

librdkafka fetches ahead until its queue holds so many records, or so many bytes of *values*: keys and headers
do not count. Of records that are mostly these it would hold some hundred megabytes, and neither limit changes
while a client runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ehkafka.headers.size import size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.headers.taking import Headed

# The queue may hold so many times what is meant: only where it would be more is anything done about it.
_TIMES: Final = 2
# The mean is that of about so many records, one of each batch.
_SAMPLES: Final = 8


class Prefetch:
    """The mean size of records, with what the client's limits make of it."""

    def __init__(self) -> None:
        self._records_max = self._bytes_max = 0
        self._mean_bytes = self._mean_value_bytes = 0.0
        # Whether the queue would grow to more than twice what is meant, were nothing taken from it.
        self.outgrows = False

    def use(self, properties: Mapping[str, Any]) -> None:
        """Take the properties of the run's consumer, before there is a poll thread."""
        self._records_max = int(properties["queued.min.messages"])
        self._bytes_max = int(properties["queued.max.messages.kbytes"]) * 1000

    def note(self, message: Headed) -> None:
        """Take one record of a batch as an example of those that come."""
        size, value_size = size_of(message), len(message)
        samples = _SAMPLES if self._mean_bytes else 1
        self._mean_bytes += (size - self._mean_bytes) / samples
        self._mean_value_bytes += (value_size - self._mean_value_bytes) / samples
        by_records = self._records_max * self._mean_bytes > _TIMES * self._bytes_max
        self.outgrows = by_records and self._mean_bytes > _TIMES * self._mean_value_bytes
