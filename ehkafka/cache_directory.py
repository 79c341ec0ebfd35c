"""Where ehkafka keeps what it downloads or writes once for all programs: the testing kit's JARs, Spark's Java."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return `EHKAFKA_CACHE_DIR`, else `ehkafka` below the user's cache directory."""
    chosen = os.environ.get("EHKAFKA_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "ehkafka"
