"""A file whose time says that the process is live: touched every few seconds while it is, else left alone.

For a watcher without HTTP: `find FILE -mmin -0.5` finds it, or does not.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOUCHED_EVERY_S: Final = 2.0


class HealthFile:
    """The file of one process. It is made when the process is live for the first time."""

    def __init__(self, path: str | os.PathLike[str], now_s: Callable[[], float] = time.monotonic) -> None:
        """Refuse what cannot be written. Raises `ConfigurationError`."""
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ConfigurationError(f"health_file={path!r:.80}: give the path of a file.")
        self.path = Path(os.fsdecode(path)).absolute()
        self._now_s = now_s
        self._next_s = float("-inf")
        folder = self.path.parent
        if self.path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ConfigurationError(
                f"health_file: {self.path} cannot be written: create its folder, and let this user write "
                f"there."
            )

    def touch_if(self, is_live: Callable[[], bool]) -> None:
        """Touch it if that is due and the process is live. Raises nothing: a full disk ends no run."""
        now_s = self._now_s()
        if now_s < self._next_s:
            return
        self._next_s = now_s + TOUCHED_EVERY_S
        if is_live():
            try:
                self.path.touch()
            except OSError:  # it then looks as if the process were not live, which its watcher sees
                self._next_s = now_s


@contextmanager
def touched(path: str | os.PathLike[str], is_live: Callable[[], bool]) -> Iterator[None]:
    """Touch the file while the block runs and `is_live` says so, from a thread of its own.

    Raises `ConfigurationError`.
    """
    file, ended = HealthFile(path), threading.Event()

    def watch() -> None:
        while not ended.wait(TOUCHED_EVERY_S / 4):
            file.touch_if(is_live)

    thread = threading.Thread(target=watch, name="ehkafka-health-file", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
