"""Row 29: a handler that holds a random half of the offsets until it is fixed, for `tests.kit.member`."""

from __future__ import annotations

import random
from pathlib import Path

import ehkafka
from tests.kit.fault_runs import SEED
from tests.kit.member import options, own


def is_held(offset: int) -> bool:
    """Tell whether an offset belongs to the held half: 0 does, and about half of the others."""
    return offset == 0 or random.Random((SEED + 29) * 1_000_003 + offset).random() < 0.5


def add_handlers(app: ehkafka.App) -> None:
    """Register it; it lets all pass once there is the file `fixed`."""
    fixed = Path(own("fixed"))

    @app.handler(options().topic, workers=4, null_key="spread", on_failure=ehkafka.Hold())
    def handle(record: ehkafka.Record) -> None:
        if is_held(record.offset()) and not fixed.exists():
            raise ValueError("held")
