"""Follows the container: every blob that was not read yet goes into the table, each exactly once.

One thread of the page's process. It only lists and reads. A blob that is not of the layout is passed over
and named; storage that does not answer is asked again, and the page says since when.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from azure.core.exceptions import AzureError, ResourceNotFoundError

from home_pipeline.layout import LayoutError, Row, check_size, complete, decode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure.storage.blob import ContainerClient

    from home_pipeline.table import Table

POLL_S = 1.0
DOWNLOADS = 4
FORGET_EVERY_S = 30.0
_log = logging.getLogger(__name__)


class Follower:
    """Reads a container into a table. `trouble` is what people should know, None when all is well."""

    def __init__(self, container: ContainerClient, table: Table, *, poll_s: float = POLL_S) -> None:
        self._container = container
        self._table = table
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        # Names that are in the table, or never will be; those that left the container leave it, too.
        self._done: set[str] = set()
        self._refused: set[str] = set()
        self._next_forget_s = 0.0
        # Written by the follower's thread, read by the page's: one reference.
        self.trouble: str | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the poll that runs."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._poll_s):
            try:
                self.poll()
                self.trouble = self._refusals()
            except AzureError as error:
                if self.trouble is None:
                    _log.warning("the blobs cannot be read: %s", type(error).__name__)
                    self.trouble = f"The blobs cannot be read since {time.strftime('%H:%M:%S')} UTC."

    def poll(self) -> int:
        """Read what is new; return how many blobs. Raises `AzureError`."""
        found = {blob.name: blob.size for blob in self._container.list_blobs()}
        listed = {name: found[name] for name in complete(found)}
        self._done &= listed.keys()
        self._refused &= listed.keys()
        new = sorted(listed.keys() - self._done)
        with ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="follower") as pool:
            # A few at a time: at its start the page may have half an hour's blobs before it.
            for few in batched(new, 2 * DOWNLOADS):
                for name, rows in zip(
                    few, pool.map(self._rows, few, [listed[name] for name in few]), strict=True
                ):
                    if rows is not None:
                        self._table.add(rows)
                    self._done.add(name)
        if time.monotonic() > self._next_forget_s:
            self._table.forget()
            self._next_forget_s = time.monotonic() + FORGET_EVERY_S
        return len(new)

    def _rows(self, name: str, size: int) -> list[Row] | None:
        try:
            check_size(name, size)
            return decode(self._container.download_blob(name).readall(), name)
        except ResourceNotFoundError:  # swept away since it was listed
            return None
        except LayoutError as error:
            _log.warning("passed over: %s", error)
            self._refused.add(name)
            return None

    def _refusals(self) -> str | None:
        if not self._refused:
            return None
        return f"{len(self._refused)} blobs were passed over: they are not of this layout (see the log)."


def batched(names: list[str], count: int) -> Iterator[list[str]]:
    """Yield so many names at a time."""
    for begin in range(0, len(names), count):
        yield names[begin : begin + count]
