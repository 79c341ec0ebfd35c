"""What a program asked its consumer for: the properties that the drop-in reads itself, and what is ours.

Reads librdkafka's spellings of flags and numbers; what it cannot read it leaves to librdkafka, whose
error the program expects. Called once per consumer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from ehkafka.checkpoints.store_mirror import checked_choice
from ehkafka.errors import ConfigurationError
from ehkafka.settings.option import option, options_of
from ehkafka.wording.calling import must_be_endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint

SyncCommit = Literal["acknowledged", "deferred"]

CLOSE_S = 25.0
"""As long as an app's stop takes by default: below the 30 s after which Kubernetes kills."""

_AUTO_COMMIT_S = 5.0
# confluent-kafka opens one in another as well.
_NESTED_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnOptions:
    """What the drop-ins take in addition to confluent-kafka's arguments."""

    endpoint: Endpoint | None = option(
        None,
        "an `ehkafka.Endpoint`. The dict then needs no address or credentials; its values win where Event "
        "Hubs permits them.",
        rule=must_be_endpoint,
    )
    mirror: MirrorChoice | None = option(
        None,
        "where commits are copied to, and where a partition without a commit begins.",
        rule=partial(checked_choice, who="Consumer"),
    )
    contiguous: bool = option(
        False,
        "whether records may be finished in any order, by any thread.",
        fits=lambda value: isinstance(value, bool),
        use="give True or False.",
    )
    unmarked_records_max: int = option(
        50_000,
        "with `contiguous`, how many may be delivered and not marked as done, all partitions together.",
        typed="50_000",
        least=1,
    )
    unmarked_bytes_max: int = option(
        128 * 1024 * 1024, "the same in bytes.", typed="128 * 1024 * 1024", least=1
    )
    sync_commit: SyncCommit = option(
        "acknowledged",
        'when a synchronous commit returns. `"deferred"`: when it is accepted, as if it were asynchronous; '
        "its answer is logged if it is a refusal.",
        one_of=get_args(SyncCommit),
    )
    close_s: float | None = option(
        CLOSE_S,
        "how long `close()`, and the end of a consumer that is not closed, wait for a broker that does not "
        "answer; `None`: as long as confluent-kafka, 45 s and more.",
        least=0,
        most=86_400,
    )

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `ConfigurationError`."""
        for one in options_of(OwnOptions):
            value = getattr(self, one.name)
            if not (value is None and "None" in one.type) and (problem := one.problem(value)):
                raise ConfigurationError(f"Consumer: {one.name}={value!r:.80}{problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSettings(OwnOptions):
    """What the drop-in does for one program. `auto_commit_s`: None where only closing commits."""

    auto_commit: bool
    auto_commit_s: float | None
    auto_store: bool


def flattened(config: Mapping[str, object], more: Mapping[str, object]) -> dict[str, Any]:
    """Return one set of properties, laid over one another as confluent-kafka does."""
    result = {**config, **more}
    for _ in range(_NESTED_MAX):
        inner = result.pop("default.topic.config", None)
        if not isinstance(inner, dict):
            return result
        result |= inner
    raise ConfigurationError(
        "Consumer: default.topic.config contains another default.topic.config: give its entries "
        "directly, next to the other properties."
    )


def auto_commit_s(config: Mapping[str, Any]) -> float | None:
    """Return the interval of automatic commits; librdkafka's 0 is none."""
    given = config.get("auto.commit.interval.ms")
    try:
        interval_s = _AUTO_COMMIT_S if given is None else int(given) / 1000
    except (TypeError, ValueError, OverflowError):
        return None  # librdkafka says what is wrong with it
    return interval_s if interval_s > 0 else None
