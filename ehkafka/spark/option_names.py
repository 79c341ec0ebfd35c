"""The names of a format's options: what it supports, in any spelling, and what it refuses. Pure.

Spark gives names in lower case; errors show them as the documentation does, and never repeat a value.
Called on the driver, by the options of `source/`, `writer/` and `sink/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from ehkafka.errors import ConfigurationError
from ehkafka.spark import secrets
from ehkafka.wording.calling import close_to

if TYPE_CHECKING:
    from collections.abc import Mapping


OF_WRITES = frozenset({"checkpointlocation", "queryname", "truncate", "outputmode"})
"""What Spark itself puts among the options of a write, in lower case."""


@dataclass(frozen=True, slots=True)
class OptionNames:
    """What one format knows of. The reasons and advice have no full stop."""

    taken: tuple[str, ...]
    # Options that are known and refused, with the reason.
    refused: Mapping[str, str]
    # In lower case: what a user may have meant, or the advice for an option of another format.
    meant: Mapping[str, str]
    # In lower case: what Spark itself puts there.
    of_spark: frozenset[str] = frozenset()
    # Whether there are those of librdkafka, `kafka.…`.
    has_properties: bool = True

    def in_our_spelling(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the options under our names; those of librdkafka (`kafka.…`) in lower case.

        Raises `ConfigurationError` for a secret, a name that is refused or unknown, and for no value.
        """
        secrets.refuse_secrets(given)
        by_lower = {name.lower(): name for name in self.taken}
        refused = {name.lower(): name for name in self.refused}
        found: dict[str, str] = {}
        for option, value in given.items():
            lower = option.lower()
            if lower in self.of_spark:
                continue
            if lower in refused:
                name = refused[lower]
                raise ConfigurationError(f"Option {name} is not supported: {self.refused[name]}.")
            known = by_lower.get(lower)
            if known is None and self.has_properties and lower.startswith(secrets.CLIENT_PREFIX):
                known = lower  # librdkafka's names are in lower case
            if known is None:
                self._refuse_unknown(option, by_lower)
            if not value.strip():
                raise ConfigurationError(f"Option {known} is empty: give a value, or leave it out.")
            found[known] = value.strip()
        return found

    def _refuse_unknown(self, given: str, by_lower: Mapping[str, str]) -> NoReturn:
        meant = self.meant.get(given.lower())
        close = close_to(given.lower(), by_lower)
        if meant is None:
            names = ", ".join(self.taken)
            meant = f"did you mean {by_lower[close]}?" if close else f"the options are {names}"
        stop = "" if meant.endswith("?") else "."
        raise ConfigurationError(f"There is no option {given[:80]!r}; {meant}{stop}")
