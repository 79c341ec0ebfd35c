"""Follows the container: every blob that was not read yet goes into the table, each exactly once.

One thread of the page's process. It only lists and reads. Listing costs a second for some thousand blobs, so
that is done for a twentieth of the time; in between it asks for the blobs that must come next, by name. A
blob that is not of the layout is passed over and named; storage that does not answer is asked again, and the
page says since when.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from azure.core.exceptions import AzureError, ResourceNotFoundError

from home_pipeline.layout import (
    MANIFEST,
    Guess,
    LayoutError,
    Row,
    check_size,
    complete,
    decode,
    is_of_a_batch,
    named_in,
    next_after,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure.storage.blob import ContainerClient

    from home_pipeline.table import Table

POLL_S = 1.0
REST, REST_S_MAX = 5, 5.0
"""After a poll it rests so many times as long as that took, if that is more than `POLL_S`."""
LISTING_REST, LISTING_REST_S_MAX = 20, 60.0
DOWNLOADS = 4
FORGET_EVERY_S = 30.0
_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """A blob of rows, and what will come after it."""

    name: str
    rows: list[Row]
    following: Guess | None


class Follower:
    """Reads a container into a table. `problem` is what people should know, None when all is well."""

    def __init__(self, container: ContainerClient, table: Table, *, poll_s: float = POLL_S) -> None:
        self._container = container
        self._table = table
        self._poll_s = poll_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        # Names that are in the table, or never will be; those that left the container leave it, too.
        self._done: set[str] = set()
        self._refused: set[str] = set()
        # By series: the name that must come next. A manifest's stands for the blobs that it names.
        self._guesses: dict[str, str] = {}
        self._next_listing_s = -math.inf
        self._next_forget_s = 0.0
        # Written by the follower's thread, read by the page's: one reference.
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the poll that runs."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        took_s = 0.0
        while not self._stop.wait(max(self._poll_s, min(REST * took_s, REST_S_MAX))):
            begin_s = time.monotonic()
            try:
                if begin_s >= self._next_listing_s:
                    self.poll()
                else:
                    self.poll_guesses()
                    took_s = time.monotonic() - begin_s
                self.problem = self._refusals()
                self._forget()
            except (AzureError, sqlite3.Error) as error:  # storage that is away; a full disk
                if self.problem is None:
                    _log.warning("the blobs cannot be read: %s", type(error).__name__)
                    since = time.strftime("%H:%M:%S", time.gmtime())
                    self.problem = f"The blobs cannot be read since {since} UTC."

    def poll(self) -> None:
        """List everything and read what is new. Raises `AzureError`."""
        begin_s = time.monotonic()
        names = {blob.name for blob in self._container.list_blobs()}
        listed_s = time.monotonic()
        self._next_listing_s = listed_s + min(LISTING_REST * (listed_s - begin_s), LISTING_REST_S_MAX)
        self._done &= names
        self._refused &= names
        new = sorted(set(complete(names)) - self._done)
        self._read(new)
        self._done.update(new)  # those that were swept away since they were listed, too

    def poll_guesses(self) -> None:
        """Ask for the blobs that must come next, and for what comes after those."""
        names = [*self._guesses.values()]
        while names:
            before = dict(self._guesses)
            self._read(names)
            names = [name for series, name in self._guesses.items() if before.get(series) != name]

    def _read(self, names: list[str]) -> None:
        """Read these into the table, those that are there and were not read."""
        new = [name for name in names if name not in self._done]
        few = 2 * DOWNLOADS
        with ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="follower") as pool:
            # A few at a time: at its start the page may have half an hour's blobs before it.
            for begin in range(0, len(new), few):
                for found in pool.map(self._check, new[begin : begin + few]):
                    self._take(found)

    def _take(self, found: Iterable[Found]) -> None:
        for name, rows, following in found:
            if following is not None and following.name > self._guesses.get(following.series, ""):
                self._guesses[following.series] = following.name
            if name not in self._done:
                if rows:
                    self._table.add(rows, None if is_of_a_batch(name) else name.rpartition("/")[0])
                self._done.add(name)

    def _check(self, name: str) -> list[Found]:
        """Return the rows of a blob, or of all that a manifest names; nothing if it is not there."""
        try:
            blob = self._container.download_blob(name)
            check_size(name, blob.size)
            body = blob.readall()
            following = next_after(name, blob.properties.metadata or {})
            if not name.endswith("/" + MANIFEST):
                return [Found(name, decode(body, name), following)]
            parts = [found for part in named_in(body, name) for found in self._check(part)]
            return [*parts, Found(name, [], following)]
        except ResourceNotFoundError:  # not there yet, or swept away since it was listed
            return []
        except LayoutError as error:
            _log.warning("passed over: %s", error)
            self._refused.add(name)
            return [Found(name, [], None)]

    def _forget(self) -> None:
        if time.monotonic() > self._next_forget_s:
            self._table.forget()
            self._next_forget_s = time.monotonic() + FORGET_EVERY_S

    def _refusals(self) -> str | None:
        if not self._refused:
            return None
        return f"{len(self._refused)} blobs were passed over: they are not of this layout (see the log)."
