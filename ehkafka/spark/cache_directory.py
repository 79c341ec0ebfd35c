"""Where ehkafka keeps what all programs share: the JARs of the testing kit, the way to a Java for Spark."""

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
