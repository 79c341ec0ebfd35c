"""The values of `workers=`: its kinds, their words, and the handlers that a kind cannot run. Pure.

A new kind is an option here, a driver of its own, and its construction in `run.pools`.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from ehkafka.workers.auto import Auto
from ehkafka.workers.processes.option import Processes, is_nameless

WORKERS_MAX: Final = 10_000
# Tasks of one event loop.
TASKS_MAX: Final = 100_000

WorkersOption = int | Processes | Auto | Literal["auto"]
WORDS: Final = (
    "how many records run at the same time (a number or auto), or in how many processes. Threads run them, "
    'or one event loop as tasks of an `async def`. `"auto"` or `Auto(2, 64)`: as many as the app '
    "finds to be of use. `Processes(4)`: in 4 processes, for what is bound by the CPU."
)
USE: Final = (
    f'use a number from 1 to {WORKERS_MAX}, or {TASKS_MAX} for an async def; "auto", or Auto(…) '
    "with a workers_max in this range; or Processes(…)."
)


def are_possible(workers: Any, *, is_async: bool) -> bool:
    """Tell whether a handler may have so many workers."""
    number = workers.bounds(is_async=is_async).most if isinstance(workers, Auto) else workers
    return isinstance(workers, Processes) or is_count(number, TASKS_MAX if is_async else WORKERS_MAX)


def mistakes_of(workers: WorkersOption, handler: Any) -> dict[str, bool]:
    """Return what of a handler its workers cannot run, and whether it is so."""
    if not isinstance(workers, Processes):
        return {}
    return {
        "workers=Processes(…): raw=True passes confluent's Message, which cannot be pickled for processes: "
        "use the Record, which has the same methods, or threads: workers=16.": handler.raw,
        "workers=Processes(…): a class handler has an instance for each partition, which processes cannot "
        "share: use a function that opens its resources in on_worker_start, or threads: "
        "workers=16.": handler.is_class,
        "workers=Processes(…): an async def needs an event loop, but worker processes have none: use a "
        "plain function that opens its clients in on_worker_start, or threads: workers=16.": handler.is_async,
        "workers=Processes(…): processes import a function by name, so a lambda or a function inside "
        "another function does not work: put the handler at the top level of a module, or use threads: "
        "workers=16.": is_nameless(handler.function),
    }


def is_count(value: object, most: float) -> bool:
    """Tell whether it is a whole number from 1 to `most`."""
    return type(value) is int and 1 <= value <= most
