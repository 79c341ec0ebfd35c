"""What the driver and the process that plans its query tell each other: by files, as they share nothing else.

Pure except for these files. Each is made once and never removed; their folder goes with the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of one run. Picklable; on the driver's own disk, where its planning process is, too."""

    folder: Path

    @property
    def stop(self) -> Path:
        """Made by the driver: no further batch is to be planned."""
        return self.folder / "stop"

    @property
    def over(self) -> Path:
        """Made by the planning process: all is handled that was there when the query began."""
        return self.folder / "over"
