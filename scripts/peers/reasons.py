"""Why ehkafka is behind, by workload: shown only where a run finds that it is.

From docs/project/benchmark-figures.md, and from "Tried, and no help" in DESIGN.md. No sentence has a figure
of its own: ratios and CPU seconds come from the run.
"""

from __future__ import annotations

_QUEUES = (
    "Hand-written queues keep no positions for commits and cannot retry a record; the engine does both for "
    "each record"
)
_TRIED = "[Tried without success](../../DESIGN.md#tried-and-no-help)"
_LESS = (
    "That library does less for each record; the table shows its order, and its commits are in its program."
)

# Compared with the bare loop, and with hand-written programs around a client.
BY_HAND = {
    "W0": (
        "A bare loop neither calls a handler nor tracks what may be committed, and hand-written queues do "
        "not commit. The engine does all of this for each record."
    ),
    "W1": f"{_QUEUES}. With sleeps this short both cores are full.",
    "W2": (
        f"{_QUEUES}. At 1 ms and less both cores are full. {_TRIED}: fewer tasks than `workers`, and a limit "
        "of awake workers."
    ),
    "W4": (
        "In hand-written queues, keys never change their worker. The engine moves the keys that wait behind "
        "a busy one to other workers, which takes a moment."
    ),
    "W5": (
        "The engine keeps a failed record and its key's later records aside and retries on time, which needs "
        "CPU time; a worker of hand-written queues just sleeps."
    ),
    "W9": (
        "A record passes from the thread that polls to a worker's thread; a bare loop handles it where it "
        "was polled."
    ),
    "W15": (
        "A bare loop hands over what it has fetched. The engine keeps the order of each key across batches, "
        "and the position of each record."
    ),
    "W17": (
        "Decoding and sending cost the same on both sides; the rest is the engine's own work for each record "
        f"and each output. {_TRIED}: counting acknowledgements only when the client's queue is empty."
    ),
}

# Compared with the best library.
LIBRARY = {
    "W0": "That library hands over whole batches of a partition.",
    "W1": _LESS,
    "W2": _LESS,
    "W4": _LESS,
    "W5": _LESS,
    "W9": "That library handles a record on the thread that polled it.",
    "W15": "That library hands over what it has fetched, in the order of the partition.",
    "W17": _LESS,
}
