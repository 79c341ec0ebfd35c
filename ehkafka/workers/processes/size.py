"""How many records a batch for a child may have. Pure: measured times come in as arguments."""

from __future__ import annotations


class BatchSize:
    """The size of one child's next batch, by how long the last ones took."""

    def __init__(self, records_max: int, batch_s: float) -> None:
        self.records = 1
        self._records_max = records_max
        self._batch_s = batch_s
        self._cost_s = 0.0

    def note(self, records: int, elapsed_s: float) -> None:
        """Learn from a batch: at once that records are dear, slowly that they are cheap, doubling at most."""
        if not records:
            return
        cost_s = elapsed_s / records
        known_s = self._cost_s
        self._cost_s = cost_s if cost_s > known_s else known_s + (cost_s - known_s) * 0.3
        fitting = int(self._batch_s / max(self._cost_s, 1e-9))
        self.records = max(1, min(self._records_max, fitting, self.records * 2))
