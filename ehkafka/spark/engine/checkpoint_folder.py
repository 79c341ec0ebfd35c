"""An app's checkpoint folder: whose it is, and where the last query in it got to.

The folder may be anywhere that Spark can write to, so it is read and written by Spark's own file systems.
Each new checkpoint is a folder of its own inside (`run-0001`, …): nothing of Spark's is ever deleted here.
The descriptions next to them (`ehkafka-0001.json`, …) are written when something changes, each once; the
newest that is whole counts. Called on the driver, in the thread that starts a query.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.failures import is_of_java, java_says
from ehkafka.spark.engine.group.hand_over import CheckpointState, Whose
from ehkafka.spark.source import offsets
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION = re.compile(r"ehkafka-(\d{4,})\.json")
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """What a checkpoint belongs to. `endpoint` is its name, which holds no secret."""

    group: str
    topics: tuple[str, ...]
    endpoint: str


class CheckpointFolder:
    """One app's folder."""

    def __init__(self, spark: SparkSession, location: str, identity: Identity) -> None:
        """Read whose it is. Raises `ConfigurationError` for another app's, or a folder of something else."""
        self.location = location.rstrip("/") or "/"
        self._identity = identity
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the way to Spark's file systems from Python
        self._jvm = jvm
        with self._explained():
            root = jvm.org.apache.hadoop.fs.Path(self.location)
            self._files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
            self._written = self._read_description()
        # Which checkpoint in it; 0 where there is none yet.
        self._run: int = self._written.get("run", 0)
        # What the group's commits call it, so that a late one differs from everybody else's.
        self.name: str = self._written.get("name") or secrets.token_hex(4)

    @property
    def path(self) -> str:
        """Where Spark's own checkpoint is, or will be."""
        return f"{self.location}/run-{max(1, self._run):04d}"

    @property
    def whose(self) -> Whose:
        """What it is called where it is compared with the group."""
        keeps_tags = bool(self._written.get("tags", False))
        return Whose(self.location, self._identity.group, self.name, keeps_tags)

    def begin_anew(self) -> None:
        """Give the next query a new checkpoint; the ones before stay where they are."""
        self._run += 1
        self.name = secrets.token_hex(4)

    def describe(self, *, keeps_tags: bool) -> None:
        """Write whose the folder is, before a query starts in it."""
        self._run = max(1, self._run)
        content = {
            "version": _VERSION,
            "run": self._run,
            "name": self.name,
            "tags": keeps_tags,
            **asdict(self._identity),
            "topics": list(self._identity.topics),
        }
        if content == self._written:
            return
        with self._explained():
            self._write(json.dumps(content, indent=1))
        self._written = content

    def standing(self) -> CheckpointState | None:
        """Return where the query in it got to; None where no batch was planned yet.

        Raises `ConfigurationError` for a checkpoint of another source.
        """
        with self._explained():
            planned = self._numbers(f"{self.path}/offsets")
            done = self._numbers(f"{self.path}/commits")
            ends = {number: self._offset(f"{self.path}/offsets/{number}") for number in planned}
        begun = [one for one in ends.values() if one.start is not None]
        starts = [one.start for one in begun if one.start is not None]
        finished = [ends[number] for number in done if number in ends]
        if not finished:
            # Not its record, which may lie behind where it began: nothing of that has been handled.
            return CheckpointState(starts[0], (starts[0],), begun[0].topic_ids) if starts else None
        last, positions = finished[-1], (one.positions for one in finished)
        return CheckpointState(last.positions, (*starts, *positions), last.topic_ids, last.witnesses)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Tell in one sentence what a file system refuses."""
        try:
            yield
        except Exception as error:
            if not is_of_java(error):
                raise
            raise ConfigurationError(
                f"checkpoint={self.location!r} cannot be used: {ended(java_says(error))} Give a folder "
                "that the "
                "driver can write to, on a file system that Spark knows."
            ) from error

    def _read_description(self) -> dict[str, Any]:
        """Return the newest one that is whole; note what the next one is called.

        A driver may be killed while it writes one: no query was started with that yet.
        """
        names = self._names(self.location)
        descriptions = {int(found[1]): name for name in names if (found := _DESCRIPTION.fullmatch(name))}
        self._next = f"{self.location}/ehkafka-{max(descriptions, default=0) + 1:04d}.json"
        for number in sorted(descriptions, reverse=True):
            if (content := self._whole(f"{self.location}/{descriptions[number]}")) is not None:
                return content
        if set(names) - set(descriptions.values()):
            raise ConfigurationError(
                f"checkpoint={self.location!r} was not made by ehkafka: it is not empty, and has no "
                f"complete ehkafka-….json. Give each app its own folder."
            )
        return {}

    def _whole(self, path: str) -> dict[str, Any] | None:
        """Return a description, None for a part of one. Raises `ConfigurationError` for another app's."""
        try:
            content: dict[str, Any] = json.loads(self._read(path) or "")
            content["run"] = int(content["run"])
            found = Identity(content["group"], tuple(content["topics"]), content["endpoint"])
        except (ValueError, KeyError, TypeError):
            return None
        self._refuse_another(found)
        return content

    def _refuse_another(self, found: Identity) -> None:
        ours = self._identity
        differs = [
            f"{name} {getattr(found, name)!r} instead of {getattr(ours, name)!r}"
            for name in ("group", "topics", "endpoint")
            if getattr(found, name) != getattr(ours, name)
        ]
        if differs:
            raise ConfigurationError(
                f"checkpoint={self.location!r} belongs to {', '.join(differs)}. Give each app its own "
                f"folder. If the app has changed, give a new folder: reading then begins at the group's "
                f"commits."
            )

    def _offset(self, path: str) -> offsets.StreamOffset:
        lines = (self._read(path) or "").splitlines()
        # A version, the query's settings, then a line for each source.
        if len(lines) != 3:
            raise ConfigurationError(f"{path} is not of a query with one source: give another checkpoint.")
        return offsets.read(lines[2])

    def _numbers(self, path: str) -> list[int]:
        return sorted(int(name) for name in self._names(path) if name.isdecimal())

    def _names(self, path: str) -> list[str]:
        folder = self._jvm.org.apache.hadoop.fs.Path(path)
        if not self._files.exists(folder):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(folder)]

    def _read(self, path: str) -> str | None:
        file = self._jvm.org.apache.hadoop.fs.Path(path)
        if not self._files.exists(file):
            return None
        stream = self._files.open(file)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, text: str) -> None:
        stream = self._files.create(self._jvm.org.apache.hadoop.fs.Path(self._next), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
