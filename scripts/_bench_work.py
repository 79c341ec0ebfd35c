"""One measurement of the benchmark, in a process of its own: `python _bench_work.py NAME OPTIONS-JSON`.

Prints one JSON line. Every measurement counts from the first record it sees to the last.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import _bench_bare as bare
import _bench_batches as batches
import _bench_bytes as received
import _bench_compute as compute
import _bench_engine as engine
import _bench_latency as latency
import _bench_members as members
import _bench_spark as spark
import _bench_table as as_table
import _bench_typed as typed
from _bench_memory import peak_memory_kib

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the measurement named on the command line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    result = MEASUREMENTS[name](**options)
    result.setdefault("rss_mib", peak_memory_kib() // 1024)
    print(json.dumps(result))


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (
        bare.bare_loop,
        bare.bare_threads,
        bare.bare_threads_by_key,
        bare.hand_tasks,
        bare.bare_calls,
        batches.engine_batches,
        batches.bare_batches,
        latency.bare_latency,
        latency.engine_latency,
        latency.engine_overload,
        latency.produce_live,
        received.engine_bytes,
        received.engine_bytes_whole,
        received.bare_bytes,
        received.bare_bytes_whole,
        compute.engine_best,
        compute.engine_steady,
        compute.plain_loop,
        compute.hand_queues,
        members.members,
        engine.engine,
        engine.engine_poisoned,
        spark.spark_sources,
        spark.spark_writers,
        as_table.arrow_to_parquet,
        as_table.loop_to_parquet,
        typed.engine_typed,
        typed.bare_typed,
        typed.engine_sending,
        typed.bare_sending,
        typed.bare_transactions,
    )
}

if __name__ == "__main__":
    main()
