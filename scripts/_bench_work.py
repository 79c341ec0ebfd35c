"""One measurement of the benchmark, in a process of its own: `python _bench_work.py NAME OPTIONS-JSON`.

Prints one JSON line. Every measurement counts from the first record it sees to the last.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _bench_bare as bare
import _bench_engine as engine
import _bench_latency as latency
import _bench_spark as spark

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the measurement named on the command line."""
    name, options = sys.argv[1], json.loads(sys.argv[2])
    result = MEASUREMENTS[name](**options)
    result["rss_mib"] = peak_memory_kib() // 1024
    print(json.dumps(result))


def peak_memory_kib() -> int:
    """Return the most memory this process had at once; worker processes and JVMs are not counted."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells there begins with the memory of whoever started the process
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1])  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    function.__name__: function
    for function in (
        bare.bare_loop,
        bare.bare_threads,
        bare.bare_threads_by_key,
        bare.bare_tasks,
        bare.bare_calls,
        latency.bare_latency,
        latency.engine_latency,
        latency.engine_overload,
        latency.produce_live,
        engine.engine,
        engine.engine_poisoned,
        spark.spark_sources,
    )
}

if __name__ == "__main__":
    main()
