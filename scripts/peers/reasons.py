"""Why ehkafka is behind, by workload: shown only where a run finds that it is.

From docs/project/benchmark-figures.md. No sentence has a figure of its own: ratios and CPU seconds come from
the run.
"""

from __future__ import annotations

_QUEUES = (
    "Hand-written queues keep no positions for commits and cannot retry a record; the engine keeps the "
    "position of each record and can retry it"
)
_TRIED = "These changes did not help"
_LESS = (
    "The faster library does less for each record. The tables below name the order that each library keeps, "
    "and the library's program shows how it commits."
)

# Compared with the bare loop, and with hand-written programs around a client.
BY_HAND = {
    "W0": (
        "A bare loop neither calls a handler nor tracks what may be committed, and hand-written queues do "
        "not commit. The engine calls the handler, tracks the record and commits."
    ),
    "W1": f"{_QUEUES}. With sleeps of 0–5 ms, both cores are full.",
    "W2": (
        f"{_QUEUES}. With sleeps of 1 ms and less, both cores are full. {_TRIED}: fewer tasks than "
        "`workers`, and a limit of awake workers."
    ),
    "W4": (
        "In hand-written queues, a key never changes its worker. The engine moves keys that wait behind a "
        "busy key to other workers, and each move takes a moment."
    ),
    "W5": (
        "The engine lets only a failed record and its key's later records wait, and retries on time. This "
        "needs CPU time; a worker of hand-written queues only sleeps."
    ),
    "W9": (
        "In the engine, a record passes from the thread that polls to a worker's thread. A bare loop handles "
        "the record on the thread that polled it."
    ),
    "W15": (
        "A bare loop passes on the records as it fetched them. The engine keeps the order of each key across "
        "batches, and the position of each record."
    ),
    "W17": (
        "Decoding and sending cost the same on both sides; the difference is the engine's own work for each "
        "record and each output. This change did not help: counting acknowledgements only when the client's "
        "queue is empty."
    ),
}

# Compared with the best library.
LIBRARY = {
    "W0": "The faster library passes whole batches of a partition to the handler.",
    "W1": _LESS,
    "W2": _LESS,
    "W4": _LESS,
    "W5": _LESS,
    "W9": "The faster library handles a record on the thread that polled it.",
    "W15": "The faster library passes on the records as it fetched them, in the order of the partition.",
    "W17": _LESS,
}
