"""The records that the first group of a chain reads; each says what becomes of it at each level."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.proof.reader import PATIENCE_S
from tests.proof.work import CODES, first_value, input_topic

if TYPE_CHECKING:
    import random

# How often an input asks for each; for refused outputs there is an option, since one may cost seconds.
SHARES = {"one": 750, "two": 80, "none": 50, "again": 30, "skip": 28, "doomed": 30, "held": 4, "later": 8}
REFUSED = ("large", "both")
# Most calls are quick, some hold their key back, so that much is finished above a commit.
CALLS_MS = (0, 0, 0, 0, 1, 1, 2, 5, 20, 50)
SLOW_MS, SLOW_SHARE = 400, 0.005


class Load:
    """Writes keyed records, numbered within their key."""

    def __init__(
        self,
        bootstrap: str,
        refused_every: int,
        dice: random.Random,
        *,
        sleep_share: float,
        levels: int,
        keys: int,
    ) -> None:
        """One output in `refused_every` is too large; of the calls only a share takes its time."""
        properties = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer({**properties, "log_level": 0, "error_cb": lambda _error: None})
        self._refused_share = 1 / refused_every if refused_every else 0.0
        self._dice = dice
        self._sleep_share = sleep_share
        self._levels = levels
        self._numbers = array("L", bytes(keys * array("L").itemsize))
        self.count = 0

    @property
    def numbers(self) -> list[int]:
        """How many records of each key were written."""
        return [*self._numbers]

    def write(self, count: int) -> None:
        """Write so many."""
        for _ in range(count):
            self._put(self._dice.randrange(len(self._numbers)), [self._action() for _ in range(self._levels)])
        self._producer.poll(0)

    def end(self) -> None:
        """Write an output for each key, so that its last one is known, and wait for all that was written."""
        for key in range(len(self._numbers)):
            self._put(key, ["one"] * self._levels)
        assert self._producer.flush(PATIENCE_S) == 0, "the load is not written"

    def _action(self) -> str:
        is_refused = self._dice.random() < self._refused_share
        shares = dict.fromkeys(REFUSED, 1) if is_refused else SHARES
        (action,) = self._dice.choices([*shares], [*shares.values()])
        return action

    def _put(self, key: int, actions: list[str]) -> None:
        self._numbers[key] += 1
        self.count += 1
        took_ms = SLOW_MS if self._dice.random() < SLOW_SHARE else self._dice.choice(CALLS_MS)
        if self._sleep_share < 1 and self._dice.random() > self._sleep_share:
            took_ms = 0
        value = first_value(self._numbers[key], "".join(CODES[name] for name in actions), took_ms)
        while True:
            try:
                return self._producer.produce(input_topic(0), value, f"key-{key}")
            except BufferError:
                self._producer.poll(0.1)
