"""Reads from a client's statistics whether its fetches were answered, and brought nothing. Pure.

That nothing comes for a while proves nothing: a fetch may not be sent yet, be refused, or wait for a broker.
librdkafka has one fetch under way at a broker, and sends the next one when all that the one before brought is
in its queue. So a partition is silent once more of them were sent while it did not move. What is not
known is not proved: then it is asked again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INTERVAL_MS: Final = 50
# The second one is sent when the first one is answered.
_FETCHES: Final = 2


class FetchState(NamedTuple):
    """One partition in the statistics with this number.

    `end` is where its log ends by its last answer; `sent` how many fetches its leader was sent. `place` is
    all that stays the same while fetches are answered with nothing: leader, position, lost connections and
    requests. `unparsed`: how many parts of answers the client could not parse.
    """

    number: int
    end: int
    sent: int
    place: tuple[Any, ...]
    unparsed: int


class ClientFetches:
    """Takes a client's statistics; `properties` are for that client. Without them nothing is known."""

    def __init__(self) -> None:
        self.properties = {"statistics.interval.ms": INTERVAL_MS, "stats_cb": self.take}
        # Of all brokers.
        self.unparsed = 0
        self._number = 0
        self._states: dict[TopicPartition, FetchState] = {}

    def state(self, partition: TopicPartition) -> FetchState | None:
        """Return how the fetches of a partition are; None where that is not known, or they are throttled."""
        return self._states.get(partition)

    def take(self, text: str) -> None:
        """Take the statistics. Inside of a call of the client."""
        self._number += 1
        try:
            found = json.loads(text)
        except ValueError:  # librdkafka writes names as they are, quotes too
            found = {}
        brokers = found.get("brokers", {}).values()
        self.unparsed = sum(broker.get("rxpartial", 0) for broker in brokers)
        by_id = {broker["nodeid"]: broker for broker in brokers if broker.get("nodeid", -1) >= 0}
        self._states = dict(self._read(found.get("topics", {}), by_id))

    def _read(
        self, topics: Mapping[str, Any], brokers: Mapping[int, Mapping[str, Any]]
    ) -> Iterator[tuple[TopicPartition, FetchState]]:
        for topic in topics.values():
            for one in topic["partitions"].values():
                broker = brokers.get(one["broker"])
                # A broker that throttles answers without having looked.
                if broker is None or broker["throttle"]["max"] > 0:
                    continue
                problems = (broker["connects"], broker["disconnects"], broker["req_timeouts"])
                yield (
                    TopicPartition(topic["topic"], one["partition"]),
                    FetchState(
                        self._number,
                        one["ls_offset"],
                        broker["req"].get("Fetch", 0),
                        (one["broker"], one["fetch_state"], one["next_offset"], *problems),
                        broker["rxpartial"],
                    ),
                )


@dataclass(slots=True)
class _Since:
    """Since which statistics, and after how many fetches, a partition has been as it is."""

    place: tuple[Any, ...]
    number: int
    sent: int | None = None


class Silence:
    """Which partitions have got nothing of late, though their leaders were asked.

    With `fetches` the number of fetches that bring nothing. Unless `counts_unparsed`, parts of answers that
    the client cannot parse are something.
    """

    def __init__(
        self, client: ClientFetches, fetches: int = _FETCHES, *, counts_unparsed: bool = False
    ) -> None:
        self._client = client
        self._fetches = fetches
        self._counts_unparsed = counts_unparsed
        self._since: dict[TopicPartition, _Since] = {}

    def lasts(self, partition: TopicPartition, end: int) -> bool:
        """Tell whether a partition is silent whose log goes up to `end` at least.

        As of the statistics that were taken before: what fetches had brought by then is handed out by the
        next call of the client.
        """
        now = self._client.state(partition)
        if now is None or now.end < end:
            self._since.pop(partition, None)
            return False
        place = now.place if self._counts_unparsed else (*now.place, now.unparsed)
        since = self._since.get(partition)
        if since is None or since.place != place:
            self._since[partition] = _Since(place, now.number)
            return False
        if since.sent is None and now.number > since.number:
            # librdkafka writes the fetches before the positions: these are the first ones sent from here.
            since.sent = now.sent
        return since.sent is not None and now.sent >= since.sent + self._fetches

    def begin_anew(self) -> None:
        """Hear that something came: its record may have taken the room of another partition's."""
        self._since.clear()
