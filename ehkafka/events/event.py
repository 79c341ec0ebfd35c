"""What every event is."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Base of every event. `level` is the severity that the log line gets."""

    level: ClassVar[int] = logging.INFO
