"""The broker's own names of topics: 16 bytes each, new whenever a topic is made.

Asked of the admin client, the only one of librdkafka's clients that tells them; `describe_topics` alone,
other questions of its have ended processes. Used by one thread at a time, never by the poll thread. A client
is kept between questions and replaced after a failure, because a key may have been rotated meanwhile.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from confluent_kafka.admin import AdminClient

ASK_S: Final = 5.0
"""How long one question may take."""

_CHECK_S = 0.05
_HALF, _HALF_BYTES = 2**64 - 1, 8
# The broker answers, but not about this one: it is just being recreated, or is not ours to see.
_ABOUT_ONE_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}


class TopicIds:
    """Asks for ids. A service that has none is asked once."""

    def __init__(self, open_admin: Callable[[], AdminClient] | None) -> None:
        """Without `open_admin` nothing is known."""
        self._open = open_admin
        self._admin: AdminClient | None = None
        # An id was received, or read in a commit: the service has them.
        self.are_known = False
        # The service has no ids, so it is asked no more.
        self.is_over = open_admin is None

    def ask(
        self,
        topics: Iterable[str],
        timeout_s: float = ASK_S,
        *,
        should_end: Callable[[], bool] = lambda: False,
    ) -> dict[str, bytes]:
        """Return the ids of those topics that the broker tells of in time."""
        names = sorted(set(topics))
        if self.is_over or not names:
            return {}
        try:
            found = self._ask(names, time.monotonic() + timeout_s, should_end)
        except (KafkaException, TimeoutError):
            self.close()
            # The embedded broker never answers, nor does, perhaps, a service of an old protocol.
            self.is_over = not self.are_known and not should_end()
            return {}
        if found and not any(map(any, found.values())):
            self.is_over = True
            self.close()
        known = {topic: topic_id for topic, topic_id in found.items() if any(topic_id)}
        self.are_known = self.are_known or bool(known)
        return known

    def close(self) -> None:
        """Let the client go. The next question opens another."""
        self._admin = None

    def _ask(self, names: list[str], deadline_s: float, should_end: Callable[[], bool]) -> dict[str, bytes]:
        assert self._open is not None
        if self._admin is None:
            self._admin = self._open()
        left_s = max(0.1, deadline_s - time.monotonic())
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=left_s)
        found = {}
        for name, future in futures.items():
            try:
                found[name] = _id_bytes(_answer(future, deadline_s, should_end).topic_id)
            except KafkaException as error:
                if error.args[0].code() not in _ABOUT_ONE_TOPIC:
                    raise
        return found


def _answer(future: Any, deadline_s: float, should_end: Callable[[], bool]) -> Any:
    while True:
        try:
            return future.result(_CHECK_S)
        except TimeoutError:
            if should_end() or time.monotonic() > deadline_s + _CHECK_S:
                raise


def _id_bytes(found: Any) -> bytes:
    """Return the id; 16 zeros where the broker has none."""
    halves = found.get_most_significant_bits(), found.get_least_significant_bits()
    return b"".join((half & _HALF).to_bytes(_HALF_BYTES) for half in halves)
