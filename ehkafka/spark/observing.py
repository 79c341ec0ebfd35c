"""A running query for Prometheus and OpenTelemetry: lag, positions and how long its batches take.

`ehkafka.metrics.Collector(observe(query))` and `ehkafka.otel.Metrics(observe(query))` show what an app shows,
as far as a query has it. Asks Spark, and the broker where options are given, when it is asked itself; on any
thread, one at a time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError
from ehkafka.spark.source.options import options_from
from ehkafka.spark.source.picture import QueryPicture

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.ranges.log import Log
    from ehkafka.ranges.offset_text import Positions
    from ehkafka.telemetry.snapshot import Snapshot

# What the broker may take: who reads metrics waits for ten seconds by default. `Log` asks twice at most.
ASK_S = 5.0


def observe(query: Any, options: Mapping[str, str] | None = None) -> ObservedQuery:
    """Return a streaming query as metrics read it; also of a Spark Connect session.

    Series have the query's name as their `group`, its id where it has none. Nothing is opened before the
    first snapshot.

    - `query` (required): a `StreamingQuery` that runs.
    - `options` (default `None`): those of the stream: the broker is asked where logs end. None: the lag is
      that of the moment when the last batch was planned.

    Raises `ConfigurationError` for wrong options.
    """
    return ObservedQuery(query, options)


class ObservedQuery:
    """What `observe` returns. It does not keep the query from ending, and may outlive it."""

    def __init__(self, query: Any, options: Mapping[str, str] | None = None) -> None:
        self._query = query
        self._name = str(query.name or query.id)
        given = None if options is None else options_from(options)
        self._options = given and replace(given, timeout_s=min(ASK_S / 2, given.timeout_s))
        self._began_s = time.monotonic()
        self._lock = threading.Lock()
        # Under the lock.
        self._picture = QueryPicture()
        self._log: Log | None = None

    def snapshot(self) -> Snapshot:
        """Return the picture of this moment; what Spark or the broker does not tell is not in it."""
        # Not at the top: workers have no use for it.
        from ehkafka.telemetry.snapshot import Snapshot  # noqa: PLC0415

        with self._lock:
            is_active = self._is_running()
            log_ends = self._log_ends(is_active=is_active)
            partitions = self._picture.partitions(log_ends)
            received, batch_s = self._picture.received_records, self._picture.batch_s
        state = "running" if is_active else "stopped"
        return replace(
            Snapshot.empty(self._name, "Spark", state, time.time()),
            uptime_s=time.monotonic() - self._began_s,
            partitions=partitions,
            received_records=received,
            finished_records=received,
            batch_s=batch_s,
        )

    def measure(self) -> None:
        """Do nothing: Spark measures batches by itself."""

    def close(self) -> None:
        """Close the connection to the broker, if there is one. The next snapshot would open another."""
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def _is_running(self) -> bool:
        """Take the query's last progress; tell whether it runs."""
        try:
            # In this order: a query that has ended by itself has reported all its progress.
            is_active, progress = bool(self._query.isActive), self._query.lastProgress
        except Exception:  # its session has ended, by Java's error or by Connect's
            return False
        if progress is not None:
            self._picture.take(progress)
        return is_active

    def _log_ends(self, *, is_active: bool) -> Positions | None:
        """Return where logs end now, None to take what the last progress says; none where it is not known."""
        if self._options is None:
            return None if is_active else {}  # of a query that has ended it grows older and older
        from ehkafka.ranges.log import Log  # noqa: PLC0415 - asks a broker, for which it loads a client

        try:
            self._log = self._log or Log(self._options)
            return self._log.ends(self._log.partitions())
        except EhkafkaError:
            return {}
