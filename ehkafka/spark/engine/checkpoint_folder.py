"""An app's checkpoint folder: whose it is, and where the last query in it got to.

The folder may be anywhere that Spark can write to, so it is read and written by Spark's own file systems.
Each new checkpoint is a folder of its own inside (`run-0001`, …): nothing is ever deleted here. Called on the
driver, in the thread that starts a query.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.spark.engine.hand_over import Standing
from ehkafka.spark.source import offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IDENTITY = "ehkafka.json"
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
        self.location = location.rstrip("/")
        self._identity = identity
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the way to Spark's file systems from Python
        self._jvm = jvm
        root = jvm.org.apache.hadoop.fs.Path(self.location)
        self._files = root.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        self._run = self._read_run()

    @property
    def path(self) -> str:
        """Where Spark's own checkpoint is, or will be."""
        return f"{self.location}/run-{max(1, self._run):04d}"

    def begin_anew(self) -> None:
        """Give the next query a new checkpoint; the ones before stay where they are."""
        self._run += 1

    def claim(self) -> None:
        """Write whose the folder is, before a query starts in it."""
        self._run = max(1, self._run)
        content = {"version": _VERSION, "run": self._run, **asdict(self._identity)}
        self._write(_IDENTITY, json.dumps(content, indent=1))

    def standing(self) -> Standing | None:
        """Return where the query in it got to; None where no batch was planned yet.

        Raises `ConfigurationError` for a checkpoint of another source.
        """
        planned = self._numbers(f"{self.path}/offsets")
        done = self._numbers(f"{self.path}/commits")
        ends = {number: self._offset(f"{self.path}/offsets/{number}") for number in planned}
        starts = [one.start for one in ends.values() if one.start is not None]
        finished = [ends[number].positions for number in done if number in ends]
        if not finished:
            return Standing(starts[0], (starts[0],)) if starts else None
        return Standing(finished[-1], (*starts, *finished))

    def _read_run(self) -> int:
        text = self._read(f"{self.location}/{_IDENTITY}")
        if text is None:
            if self._names(self.location):
                raise ConfigurationError(
                    f"checkpoint={self.location!r} is no folder of ehkafka's: it is not empty and has no "
                    f"{_IDENTITY}. Give a folder of its own to each app."
                )
            return 0
        try:
            content = json.loads(text)
            run, topics = int(content["run"]), tuple(content["topics"])
            found = Identity(content["group"], topics, content["endpoint"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{self.location}/{_IDENTITY} is damaged ({error!r}): give another folder."
            ) from error
        self._refuse_another(found)
        return run

    def _refuse_another(self, found: Identity) -> None:
        ours = self._identity
        differs = [
            f"{name} {getattr(found, name)!r} instead of {getattr(ours, name)!r}"
            for name in ("group", "topics", "endpoint")
            if getattr(found, name) != getattr(ours, name)
        ]
        if differs:
            raise ConfigurationError(
                f"checkpoint={self.location!r} belongs to {', '.join(differs)}. Give a folder of its own "
                "to each app; where the app has changed, a new one begins where its group stands."
            )

    def _offset(self, path: str) -> offsets.StreamOffset:
        lines = (self._read(path) or "").splitlines()
        # A version, the query's settings, then a line for each source.
        if len(lines) != 3:
            raise ConfigurationError(f"{path} is no offset of one source: give another checkpoint folder.")
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

    def _write(self, name: str, text: str) -> None:
        path = self._jvm.org.apache.hadoop.fs.Path
        target, part = path(f"{self.location}/{name}"), path(f"{self.location}/.{name}.part")
        stream = self._files.create(part, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._files.exists(target):
            self._files.delete(target, False)
        if not self._files.rename(part, target):
            raise EhkafkaError(f"{self.location}/{name} could not be written. Check the folder's rights.")
