"""Which container the sink writes to and how it is entered, with every secret by its name alone.

A `Place` goes to the executors in a pickle and into Spark's plans; what it names is read in the process that
opens the client. Called on the driver (check) and on executors (open).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ehkafka.checkpoints.blob_mirror import BlobMirror
from ehkafka.errors import ConfigurationError
from ehkafka.spark.secrets import called, variable

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each way with what may be given with it.
_WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containerUrl": ("credential", "clientId", "credentialFactory"),
    "containerUrlEnv": (),
    "containerUrlFile": (),
    "connectionStringEnv": ("container",),
    "connectionStringFile": ("container",),
}
PLACE_OPTIONS: Final = (*_WAYS, "container", "credential", "clientId", "credentialFactory")


@dataclass(frozen=True, slots=True)
class Place:
    """`way` is the option that was given, `value` what it says: a name, a path, or a URL without a SAS."""

    way: str
    value: str
    container: str | None = None
    credential: str | None = None
    client_id: str | None = None
    credential_factory: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """Choose the way that the options name. Raises `ConfigurationError` that repeats no value."""
        given = {name: options[name] for name in PLACE_OPTIONS if name in options}
        ways = [name for name in _WAYS if name in given]
        if len(ways) != 1:
            raise ConfigurationError(
                "ehkafka-blob needs one way to its container: containerUrl "
                "(https://<account>.blob.core.windows.net/<container>, entered with an Entra ID identity), "
                "or container with connectionStringEnv or connectionStringFile, "
                "or containerUrlEnv or containerUrlFile for a URL with a SAS. "
                f"Now given: {' and '.join(ways) or 'none'}"
            )
        way = ways[0]
        others = given.keys() - {way}
        if strangers := sorted(others - {*_WAYS[way]}):
            raise ConfigurationError(f"Option {strangers[0]} does not work with {way}: leave one of them out")
        if "container" in _WAYS[way] and "container" not in given:
            raise ConfigurationError(f"Option {way} also needs the container's name, in option container")
        if "credentialFactory" in given and others & {"credential", "clientId"}:
            raise ConfigurationError(
                "Option credentialFactory makes the credential: leave credential and clientId out"
            )
        place = cls(way, given[way], *map(given.get, PLACE_OPTIONS[len(_WAYS) :]))
        place._check()
        return place

    def open_client(self, options: dict[str, Any]) -> tuple[str, Any]:
        """Return the container's name for people, and the SDK's client of it."""
        factory = self.credential_factory
        found = self._described(called("credentialFactory", factory) if factory else self.credential)
        client, _credential = found.open_client(options)
        return found.name, client

    def _check(self) -> None:
        """Refuse what is wrong in itself, before any secret is read."""
        if self.way == "containerUrl":
            if "?" in self.value:
                raise ConfigurationError(
                    "Option containerUrl has a query, which may be a SAS: name the URL by containerUrlEnv or "
                    "containerUrlFile instead, so that it stays out of Spark's plans and logs"
                )
            self._described(None if self.credential_factory else self.credential)

    def _described(self, credential: object) -> BlobMirror:
        """Return the container as the mirror describes it: the same rules hold for both."""
        secret = "" if self.way == "containerUrl" else self._secret()
        try:
            if self.way == "containerUrl":
                return BlobMirror(self.value, credential, client_id=self.client_id)
            if self.container is None:
                return BlobMirror(secret)
            return BlobMirror.connection_string(secret, self.container)
        except ConfigurationError as error:
            text = re.sub(r"^BlobMirror[\w.]*: ", "", str(error))
        raise ConfigurationError(f"Option {self.way}: {text}")

    def _secret(self) -> str:
        """Read what the option names, in this process. Raises `ConfigurationError`."""
        if self.way.endswith("Env"):
            return variable(self.way, self.value)
        problem = "is empty"
        try:
            if text := Path(self.value).read_text(encoding="utf-8").strip():
                return text
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read ({type(error).__name__})"
        raise ConfigurationError(
            f"Option {self.way}: the file {self.value!r} {problem} in this process. The file must be on the"
            " machines of the driver and of every executor."
        )
