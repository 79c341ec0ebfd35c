"""What the benchmark's table is made of: topics, measurements, and rows that set two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kit.faults.kafka_proxy import CommitPolicy

FILLED_RECORDS = 1_000_000
# What a batch of W15 has at most, on every side.
BATCH_RECORDS_MAX = 500
# Where live records, dead letters and outputs go: nothing is put there before.
LIVE, LETTERS, OUTPUTS = "live", "letters", "outputs"


@dataclass(frozen=True)
class Topic:
    """A topic that is filled before; `even`: each key as often as any other, else drawn."""

    keys: int
    records: int = FILLED_RECORDS
    partitions: int = 8
    even: bool = False
    # Whether values are JSON with the field `home`; of 200 bytes in any case.
    json: bool = False
    # The one partition that has records; None: as their keys say.
    only_partition: int | None = None
    # Whether it has fewer records where the benchmark itself is tried.
    may_be_smaller: bool = True


@dataclass(frozen=True)
class Side:
    """One measurement: a function of `_bench_work` and its options."""

    measurement: str
    topic: str = "keys10000"
    options: dict[str, Any] = field(default_factory=dict)
    # Records per second that a producer process sends meanwhile; 0: the topic was filled before.
    live_per_s: int = 0
    # How many more per second it sends for the key `hot`.
    hot_per_s: int = 0
    # What a proxy before the broker does to commits; None: there is no proxy in between.
    commits: CommitPolicy | None = None
    # Whether it has to know how many bytes a record takes in the broker's log.
    counts_bytes: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the table: ours and what it is measured against, and the goal in words."""

    work: str
    ours: Side
    # None: `limit_figure` of the same measurement.
    limit: Side | None
    figure: str = "records_per_s"
    limit_figure: str = ""
    goal: str = ""
    # Off where a run is long enough to need none.
    warm_up: bool = True
    # How often each side is measured in a round, the sides in turn; the round's figure is the middle one's. A
    # percentile of a few seconds is decided by one stall of the machine.
    windows: int = 1
    # Both sides at once: long runs of sleeping handlers, which leave most of the machine idle.
    together: bool = False
    # Whether rows with the very same measurement share one of each round, each with figures of its own.
    shared: bool = False
    # Another side, what it is called, and its own limit; None: the same limit.
    other: Side | None = None
    other_name: str = ""
    other_limit: Side | None = None
    # The names of what each side's CPU seconds per million records are called.
    cpu: str = "cpu_s_per_million"
    limit_cpu: str = ""
    # Further figures of ours and the limit's: their name, and how they are written.
    remarks: tuple[tuple[str, str], ...] = ()

    @property
    def sides(self) -> list[tuple[str, Side]]:
        """What is to be measured, in this order."""
        found = [
            ("limit", self.limit),
            ("other_limit", self.other_limit),
            ("other", self.other),
            ("ours", self.ours),
        ]
        return [(name, side) for name, side in found if side is not None]
