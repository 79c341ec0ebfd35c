"""What each side does the same way: reads its options, counts, reports, and ends when it is asked to.

Standard library only, since each side runs in an environment of its own: `python sides/NAME.py OPTIONS_JSON`.
A side prints `{"ready": true}` once it consumes, then a line four times a second:

    {"at_s": <time.monotonic()>, "handled": <so far>}             always
    "failed": <failed attempts so far>                            work: "poison"
    "latency_ms": [p50, p99, p99.9, max], "latencies": <how many>  "latency" and "hot", since the last line

It starts at the earliest offset (a topic with live records is always a new one), in the group that it is
given, and commits as its library documents. It ends at SIGTERM or when its standard input closes.

| work | what a handler does with a record |
|---|---|
| noop | nothing |
| json | reads the value as JSON |
| sleep | sleeps `sleep_ms`, or if it is `[low, high]`, a random time between the two |
| hot | the key `hot` sleeps `hot_ms`; others sleep `sleep_ms`, and only they count and have a latency |
| poison | sleeps `sleep_ms`; a value that begins with `poison` then fails, at its first attempt only |
| latency | nothing |
| batch | takes batches of `batch_records`; does nothing, or with `decode` = "json" reads each value as JSON |
| typed | takes the value as an object with the fields `home`, `n` and `pad`, decoded by the library |
| output | returns key and value as one output to `output_topic`; it counts once the broker acknowledged it |
| exactly_once | the same in a transaction that contains the input offsets; it counts after the commit |

Poison counts as `failed` at each failed attempt and is never counted as `handled`; it is tried again after
`retry_s`. A latency is the time from the producer's clock, with which the value begins, until the handler
begins.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT_S = 0.25
STDIN = 0
HOT_KEY = b"hot"
POISON = b"poison"


@dataclass(frozen=True)
class Options:
    """What the harness asks of a side."""

    bootstrap: str
    topic: str
    group: str
    work: str
    partitions: int = 8
    sleep_ms: float | list[float] = 0.0
    hot_ms: float = 0.0
    workers: int = 1
    kind: str = "threads"
    # Which of the side's own ways to do it, as its TOML file names them.
    mode: str = ""
    keys: int = 0
    output_topic: str = ""
    retry_s: float = 0.0
    batch_records: int = 500
    decode: str = ""

    @classmethod
    def from_arguments(cls) -> Options:
        """Read the JSON on the command line; keys that this side does not know are left out."""
        given = json.loads(sys.argv[1])
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known})

    def sleep_s(self) -> Callable[[], float]:
        """Return a function that returns how long the next record's handler sleeps."""
        if isinstance(self.sleep_ms, list):
            low_s, high_s = (one / 1e3 for one in self.sleep_ms)
            draw = random.Random(1).uniform  # noqa: S311 - no secret
            return lambda: draw(low_s, high_s)
        constant_s = self.sleep_ms / 1e3
        return lambda: constant_s


class Report:
    """Counts and says it on standard output, four times a second from `ready()` on.

    `stopping` is set once the side is to end. A worker counts in a list of its own (`cell`), which no other
    thread writes, or all of them by one `ticker`; `latencies` is appended to by any thread.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.latencies: list[int] = []
        self._handled: list[list[int]] = []
        self._failed: list[list[int]] = []
        self._more: list[Callable[[], int]] = []
        self._more_failed: list[Callable[[], int]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        signal.signal(signal.SIGTERM, lambda *_: self.stopping.set())
        threading.Thread(target=self._follow_stdin, daemon=True).start()

    def cell(self, *, failed: bool = False) -> list[int]:
        """Return a list with one number, which its owner counts up for each handled (or failed) record."""
        made = [0]
        (self._failed if failed else self._handled).append(made)
        return made

    def ticker(self, *, failed: bool = False) -> Callable[[], int]:
        """Return a function that counts one handled (or failed) record, for any number of threads."""
        counter = itertools.count()
        # Its next number is what it has counted; asked for its text, it does not move.
        count = lambda: int(repr(counter)[len("count(") : -1])  # noqa: E731
        if failed:
            self._more_failed.append(count)
        else:
            self._more.append(count)
        return counter.__next__

    def count_by(self, count: Callable[[], int]) -> None:
        """Ask this function as well, for how many records are handled so far."""
        self._more.append(count)

    def age(self, value: bytes) -> None:
        """Note the latency of a record whose value begins with the producer's clock."""
        self.latencies.append(time.monotonic_ns() - int(value[: value.index(b" ")]))

    def ready(self) -> None:
        """Say that records are consumed from now on, and begin to report."""
        _say({"ready": True})
        self._thread.start()

    def wait(self) -> None:
        """Wait until the side is to end."""
        while not self.stopping.wait(3600.0):
            pass

    def _run(self) -> None:
        while not self.stopping.wait(REPORT_S):
            self._report()

    def _report(self) -> None:
        line: dict[str, Any] = {"handled": sum(cell[0] for cell in self._handled)}
        line["handled"] += sum(count() for count in self._more)
        line["at_s"] = time.monotonic()
        if self._failed or self._more_failed:
            line["failed"] = sum(cell[0] for cell in self._failed) + sum(
                count() for count in self._more_failed
            )
        number = len(self.latencies)
        if number:
            taken = self.latencies[:number]
            del self.latencies[:number]
            line |= {"latency_ms": percentiles_ms(taken), "latencies": number}
        _say(line)

    def _follow_stdin(self) -> None:
        # Not by `sys.stdin`: while a thread waits in it, it holds a lock, and the interpreter's end aborts.
        with contextlib.suppress(OSError):
            while os.read(STDIN, 1024):
                pass
        self.stopping.set()


def percentiles_ms(latencies_ns: list[int]) -> list[float]:
    """Return the median, p99, p99.9 and the most, in milliseconds."""
    ordered = sorted(latencies_ns)
    places = (0.5, 0.99, 0.999, 1.0)
    return [round(ordered[min(int(len(ordered) * at), len(ordered) - 1)] / 1e6, 3) for at in places]


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
