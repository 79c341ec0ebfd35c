"""The records that the group of `output_checker` handles; each says what becomes of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.integration.output_member import INPUT
from tests.integration.output_verdict import PATIENCE_S

if TYPE_CHECKING:
    import random

KEYS = 100
# How often an input asks for each; for refused outputs there is an option, since one may cost seconds.
SHARES = {"one": 76, "two": 8, "none": 5, "again": 3, "skip": 3, "doomed": 3}
REFUSED = ("large", "both")
# Most calls are quick, some hold their key back, so that much is finished above a commit.
CALLS_MS = (0, 0, 0, 0, 1, 1, 2, 5, 20, 50)
SLOW_MS, SLOW_SHARE = 400, 0.005


class Load:
    """Writes keyed records, numbered within their key."""

    def __init__(
        self, bootstrap: str, refused_every: int, dice: random.Random, *, sleep_share: float
    ) -> None:
        """One output in `refused_every` is too large; of the calls only a share takes its time."""
        properties = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**properties, "log_level": 0, "error_cb": lambda _error: None})
        self._refused_share = 1 / refused_every if refused_every else 0.0
        self._dice = dice
        self._sleep_share = sleep_share
        self._numbers: Counter[int] = Counter()

    @property
    def count(self) -> int:
        """How many records were written."""
        return self._numbers.total()

    def write(self, count: int) -> None:
        """Write so many."""
        for _ in range(count):
            is_refused = self._dice.random() < self._refused_share
            shares = dict.fromkeys(REFUSED, 1) if is_refused else SHARES
            (action,) = self._dice.choices([*shares], [*shares.values()])
            self._put(self._dice.randrange(KEYS), action)
        self._producer.poll(0)

    def end(self) -> None:
        """Write an output for each key, so that its last one is known, and wait for all that was written."""
        for key in range(KEYS):
            self._put(key, "one")
        assert self._producer.flush(PATIENCE_S) == 0, "the load is not written"

    def _put(self, key: int, action: str) -> None:
        self._numbers[key] += 1
        took_ms = SLOW_MS if self._dice.random() < SLOW_SHARE else self._dice.choice(CALLS_MS)
        if self._sleep_share < 1 and self._dice.random() > self._sleep_share:
            took_ms = 0
        value = f"{self._numbers[key]} {action} {took_ms}"
        while True:
            try:
                return self._producer.produce(INPUT, value, f"key-{key}")
            except BufferError:
                self._producer.poll(0.1)
