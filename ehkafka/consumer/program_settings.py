"""What a program asked its consumer for: the properties that the drop-in reads itself, and what is ours.

Pure. Reads librdkafka's spellings of flags and numbers; what it cannot read it leaves to librdkafka, whose
error the program expects. Called once per consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

SyncCommit = Literal["acknowledged", "deferred"]

_TRUE = frozenset({"true", "t", "1"})
_AUTO_COMMIT_S = 5.0
_CLOSE_S_MAX = 86_400
# confluent-kafka opens one in another as well.
_NESTED_MAX = 20
UNMARKED_RECORDS_MAX = 50_000
UNMARKED_BYTES_MAX = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """What the drop-in does for one program. `auto_commit_s`: None where only closing commits."""

    auto_commit: bool
    auto_commit_s: float | None
    auto_store: bool
    contiguous: bool
    sync_commit: SyncCommit
    close_s: float | None
    unmarked_records_max: int
    unmarked_bytes_max: int

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `ConfigurationError`."""
        if self.sync_commit not in get_args(SyncCommit):
            raise ConfigurationError(
                f"Consumer: sync_commit={self.sync_commit!r} is unknown; use 'acknowledged', which waits for "
                "the broker, or 'deferred', which returns at once."
            )
        if not isinstance(self.contiguous, bool):
            raise ConfigurationError(f"Consumer: contiguous={self.contiguous!r:.80}: give True or False.")
        if self.close_s is not None and not _is_within(self.close_s, _CLOSE_S_MAX):
            raise ConfigurationError(
                f"Consumer: close_s={self.close_s!r:.80}: give seconds from 0 to {_CLOSE_S_MAX}, or None for "
                "no limit."
            )
        for name in ("unmarked_records_max", "unmarked_bytes_max"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"Consumer: {name}={value!r}: give a whole number from 1 on.")


def _is_within(value: object, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most


def flattened(config: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return one set of properties, laid over one another as confluent-kafka does."""
    result = {**config, **more}
    for _ in range(_NESTED_MAX):
        inner = result.pop("default.topic.config", None)
        if not isinstance(inner, dict):
            return result
        result |= inner
    raise ConfigurationError(
        "Consumer: default.topic.config holds itself: give its entries beside the others."
    )


def auto_commit_s(config: Mapping[str, Any]) -> float | None:
    """Return the interval of automatic commits; librdkafka's 0 is none."""
    given = config.get("auto.commit.interval.ms")
    try:
        interval_s = _AUTO_COMMIT_S if given is None else int(given) / 1000
    except (TypeError, ValueError, OverflowError):
        return None  # librdkafka says what is wrong with it
    return interval_s if interval_s > 0 else None


def is_true(config: Mapping[str, Any], name: str) -> bool:
    """Tell whether a flag whose default is true is so. `None` is no value to librdkafka, which says so."""
    return str(config.get(name, True)).strip().lower() in _TRUE
