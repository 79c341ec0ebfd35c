"""Where the drop-in does something else than confluent-kafka: the catalogue, and which were logged.

Values, and one set per consumer. Each deviation is logged once, when it first matters; each has a name under
which `Consumer(as_confluent=…)` switches it off.
"""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.events.consumer import DropInDeviated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.events import Event

Deviation = Literal["bare_commit", "coalescing", "auto_commit", "callbacks", "replaced_logs", "settings"]

DEVIATIONS: Mapping[Deviation, str] = MappingProxyType(
    {
        "bare_commit": "commit() without arguments takes the positions at the call; confluent-kafka takes "
        "them later, when the next batch may have moved them past records that nobody has handled",
        "coalescing": "commits asked for while one is on its way share the next request, and asynchronous "
        "ones keep the pace of Event Hubs; each is answered. confluent-kafka sends one request each",
        "auto_commit": "enable.auto.commit commits what a poll returned once a later poll has begun; "
        "confluent-kafka commits, at close too, what may still be in the hands of the program",
        "callbacks": "an exception in a callback comes out of poll() or consume(), and the records that "
        "were about to be returned are returned by the next call; confluent-kafka drops them. close() in a "
        "callback waits for the end of the call; confluent-kafka may hang",
        "replaced_logs": "whether a topic was deleted and recreated under its name is asked on a thread of "
        "its own and logged, and commits carry what shows it; contiguous=True or a mirror begin such a "
        "partition anew, as auto.offset.reset=earliest or error says. confluent-kafka resumes in its middle",
        "settings": "on Event Hubs, settings that the service needs are added and those that it does not "
        "take are refused; confluent-kafka passes all of them on",
    }
)


class Deviating:
    """Which deviations one consumer has, and which of them were logged."""

    def __init__(self, as_confluent: Collection[Deviation], emit: Callable[[Event], None]) -> None:
        known = get_args(Deviation)
        given = [as_confluent] if isinstance(as_confluent, str) else as_confluent
        if not isinstance(given, Collection):
            raise ConfigurationError(
                f"Consumer: as_confluent is of type {type(given).__name__}; give a list of names, some of "
                f"{', '.join(known)}."
            )
        if unknown := [name for name in given if name not in known]:
            raise ConfigurationError(
                f"Consumer: as_confluent={unknown[0]!r} is unknown; use some of {', '.join(known)}."
            )
        self._off = frozenset(given)
        self._emit = emit
        self._reported: set[Deviation] = set()

    def has(self, name: Deviation) -> bool:
        """Tell whether the drop-in does this in its own way."""
        return name not in self._off

    def report(self, name: Deviation) -> None:
        """Log it, the first time."""
        if name not in self._reported:
            self._reported.add(name)
            self._emit(DropInDeviated(name, DEVIATIONS[name]))
