"""What a checker found: counts of each measure and the first examples as sentences.

Pure values. `Findings` collects while a history is checked; `Verdict` is its immutable result.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class Measure(enum.StrEnum):
    """What is measured. The definitions stand in the docstring of `tests.kit.checker.checker`."""

    LOST = "lost"
    PREMATURE = "premature_commits"
    ORDER = "order_violations"
    STALE = "stale_commits"
    DUPLICATE = "duplicates"
    UNSEEN = "unseen"
    CROSS_EPOCH = "cross_epoch_overlaps"
    MIRROR_AHEAD = "mirror_ahead"
    BREACH = "protocol_breaches"
    LATE = "late_events"
    TORN = "torn_lines"


# Must be 0 in every run, whatever the fault. Duplicates have their own bound; the rest is reported.
FORBIDDEN = (
    Measure.LOST,
    Measure.PREMATURE,
    Measure.ORDER,
    Measure.STALE,
    Measure.UNSEEN,
    Measure.MIRROR_AHEAD,
    Measure.BREACH,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a history. `examples` has the first sentences for each measure found."""

    lost: int = 0
    premature_commits: int = 0
    order_violations: int = 0
    stale_commits: int = 0
    duplicates: int = 0
    # In flight, or finished and not committed, when an epoch ended: what may be repeated after it.
    duplicates_bound: int = 0
    # Duplicates beyond their partition's bound, or within one epoch, where nothing explains them.
    duplicates_unexplained: int = 0
    unseen: int = 0
    cross_epoch_overlaps: int = 0
    # Summed over epochs, when each ended or was taken over: the bound of `cross_epoch_overlaps`.
    in_flight_at_end: int = 0
    mirror_ahead: int = 0
    protocol_breaches: int = 0
    late_events: int = 0
    torn_lines: int = 0
    # How much was looked at: without it a count of 0 says nothing.
    processes: int = 0
    epochs: int = 0
    produced: int = 0
    received: int = 0
    finished: int = 0
    commits_acknowledged: int = 0
    examples: Mapping[Measure, tuple[str, ...]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every measure that must be 0 is 0 and each duplicate lies within its bound."""
        return not self.violations and not self.duplicates_unexplained

    @property
    def violations(self) -> dict[str, int]:
        """The measures that must be 0 and are not, with their counts."""
        return {str(measure): count for measure in FORBIDDEN if (count := getattr(self, measure))}

    @property
    def duplicate_share(self) -> float:
        """Duplicates per record with an outcome, 0.01 for one in a hundred."""
        return self.duplicates / self.finished if self.finished else 0.0

    def summary(self) -> str:
        """Return one line: the judgement, how much was looked at, and each measure."""
        measures = ", ".join(f"{measure.replace('_', ' ')} {getattr(self, measure)}" for measure in FORBIDDEN)
        seen = (
            f"{self.finished} of {self.received} received records finished in {self.processes} processes "
            f"and {self.epochs} epochs, {self.commits_acknowledged} commits"
        )
        duplicates = (
            f"duplicates {self.duplicates} ({100 * self.duplicate_share:.2f} %, "
            f"bound {self.duplicates_bound}, unexplained {self.duplicates_unexplained})"
        )
        overlaps = f"cross-epoch overlaps {self.cross_epoch_overlaps}"
        return f"{'ok' if self.ok else 'VIOLATED'}: {seen}; {measures}, {duplicates}, {overlaps}"

    def report(self) -> str:
        """Return the summary and, a line each, the examples."""
        lines = [f"  {measure}: {text}" for measure, texts in self.examples.items() for text in texts]
        return "\n".join([self.summary(), *lines])

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON, `ok` included."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        values |= {"ok": self.ok, "duplicate_share": self.duplicate_share}
        values["examples"] = {str(measure): list(texts) for measure, texts in self.examples.items()}
        return values


class Findings:
    """Counts of each measure and the first few sentences. One thread at a time."""

    def __init__(self, examples_max: int) -> None:
        self.examples_max = examples_max
        self.counts: dict[Measure, int] = dict.fromkeys(Measure, 0)
        self.examples: dict[Measure, list[str]] = {}

    def add(self, measure: Measure, sentence: str, count: int = 1) -> None:
        """Count a finding; its sentence is kept while there are few."""
        self.counts[measure] += count
        sentences = self.examples.setdefault(measure, [])
        if len(sentences) < self.examples_max:
            sentences.append(sentence)

    def copy(self) -> Findings:
        """Return an independent copy, to be completed for one verdict."""
        twin = Findings(self.examples_max)
        twin.counts = dict(self.counts)
        twin.examples = {measure: list(sentences) for measure, sentences in self.examples.items()}
        return twin
