"""A proxy that understands enough Kafka to answer for a broker: commits, outputs, transactions, versions.

It delays and refuses commits as Event Hubs does, answers chosen Produce requests with chosen errors, holds
the ends of transactions, offers an Event Hubs namespace's versions, and keeps a record of each request. A
Produce request that it refuses is not written: the request is damaged on its way, so that the broker refuses
all of it as corrupt, and the answer gets another error. Plain text only; of clients that send one partition
in a Produce request, as librdkafka. Runs on the proxy's thread; its record may be read from any.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ehkafka.embedded.requests import ApiKey
from tests.kit.faults.frames import Fields, Frames
from tests.kit.faults.tcp_link import Link, Streams
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

# Users of azure-event-hubs-for-kafka#197 saw about 2 calls a second go through and the others take 1.1 s.
EVENT_HUBS_DELAY_S: Final = 1.1
UNKNOWN_PRODUCER_ID: Final = 59
CORRUPT_MESSAGE: Final = 2
# From the end of a Produce request: behind it are a header count and tagged fields, four bytes at most.
DAMAGED_AT: Final = -6
_HEAD: Final = struct.Struct(">hhi")  # API key, API version, correlation id


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """What becomes of commits.

    Each answer comes `delay_s` late. Beyond `per_s` in any second, or with a request of more than
    `bytes_max`, a commit takes `excess_delay_s`, and is answered with the error `excess_code` if that is not
    0 (the broker has stored it all the same).
    """

    delay_s: float = 0.0
    per_s: int | None = None
    bytes_max: int | None = None
    excess_delay_s: float = EVENT_HUBS_DELAY_S
    excess_code: int = 0


@dataclass(slots=True)
class SeenRequest:
    """One request, on the clock of `time.monotonic()`. `in_flight` counts the commits, itself included."""

    api_key: int
    version: int
    number: int
    sent_at_s: float
    answered_at_s: float | None = None
    in_flight: int = 0
    excess: bool = False
    # The error that the answer to Produce gets.
    code: int = 0


@dataclass(frozen=True, slots=True)
class Produced:
    """One Produce request: where it goes, and all of its bytes."""

    topic: str
    partition: int
    frame: bytes


class KafkaProxy(TcpProxy):
    """A `TcpProxy` whose faults are requests' and answers'.

    ```python
    with KafkaProxy(broker.bootstrap) as proxy:
        broker.advertise("127.0.0.1", proxy.port)
        proxy.policy = CommitPolicy(delay_s=1.1, per_s=2, excess_code=KafkaError.COORDINATOR_NOT_AVAILABLE)
        …
        assert proxy.most_commits_in_flight == 1
    ```
    """

    def __init__(
        self, upstream: str | None = None, policy: CommitPolicy | None = None, *, seed: int = 1
    ) -> None:
        super().__init__(upstream, seed=seed)
        self._commits_go, self._transactions_go = asyncio.Event(), asyncio.Event()
        # Set by tests, read for each request.
        self.policy = policy or CommitPolicy()
        # The error of each Produce request, 0 lets it pass; and how late, in seconds, its answer comes, which
        # says so as a throttling broker's.
        self.code_of: Callable[[Produced], int] | None = None
        self.throttle_s = 0.0
        # The versions that are offered, the oldest and the newest by API key; None for the broker's own. The
        # connection of a request in another version is closed, as the service does; `foreign` has it.
        self.versions: Mapping[int, tuple[int, int]] | None = None
        # Written by the proxy's thread; oldest first.
        self.requests: list[SeenRequest] = []
        self.foreign: list[tuple[int, int]] = []
        self.commits_in_flight = self.refused_requests = self.producer_ids = self.changed_answers = 0
        self._commits_go.set()
        self._transactions_go.set()

    def calm(self) -> None:
        """End all faults, and count from 0."""
        self.policy, self.code_of, self.throttle_s, self.versions = CommitPolicy(), None, 0.0, None
        self.release_commits()
        self.release_transactions()
        self.requests.clear()
        self.foreign.clear()
        self.refused_requests = self.producer_ids = self.changed_answers = 0
        self.heal()

    @property
    def commits(self) -> list[SeenRequest]:
        """The OffsetCommit requests so far."""
        return self.seen(ApiKey.OFFSET_COMMIT)

    @property
    def most_commits_in_flight(self) -> int:
        """How many commits waited for their answers at once, at most."""
        return max((commit.in_flight for commit in self.commits), default=0)

    @property
    def least_commit_spacing_s(self) -> float:
        """The shortest time from one commit to the next; infinite with less than two."""
        times = [commit.sent_at_s for commit in self.commits]
        return min((after - before for before, after in pairwise(times)), default=float("inf"))

    def seen(self, api_key: ApiKey) -> list[SeenRequest]:
        """Return the requests of one type so far."""
        return [request for request in list(self.requests) if request.api_key == api_key]

    def hold_commits(self) -> None:
        """Keep back the answers to commits from now on; the broker gets the commits at once."""
        self._in_loop(self._commits_go.clear)

    def release_commits(self) -> None:
        """Let them through again."""
        self._in_loop(self._commits_go.set)

    def hold_transactions(self) -> None:
        """Keep each end of a transaction from the broker, and all behind it, from now on."""
        self._in_loop(self._transactions_go.clear)

    def release_transactions(self) -> None:
        """Let it through again."""
        self._in_loop(self._transactions_go.set)

    def forget(self, code: int) -> None:
        """Refuse the outputs of the connections of now: for ever, or with 59 until an id is asked for."""

        def mark() -> None:
            for link in self._links:
                assert isinstance(link, KafkaLink)
                link.code = code

        self._in_loop(mark)

    def link(self, client: Streams, server: Streams) -> Link:
        """See `TcpProxy.link`."""
        return KafkaLink(self, client, server)

    # What follows runs on the proxy's thread.

    async def note(self, frame: bytes) -> SeenRequest:
        """Record a request; wait while it is held."""
        api_key, version, number = _HEAD.unpack_from(frame, 4)
        request = SeenRequest(api_key, version, number, time.monotonic())
        if api_key == ApiKey.OFFSET_COMMIT:
            limit, bytes_max = self.policy.per_s, self.policy.bytes_max
            recent = (
                [c for c in self.commits[-limit:] if request.sent_at_s - c.sent_at_s < 1.0] if limit else []
            )
            request.excess = limit is not None and len(recent) >= limit
            request.excess |= bytes_max is not None and len(frame) > bytes_max
            self.commits_in_flight += 1
            request.in_flight = self.commits_in_flight
        self.producer_ids += api_key == ApiKey.INIT_PRODUCER_ID
        self.requests.append(request)
        if api_key == ApiKey.END_TXN:
            await self._transactions_go.wait()
        return request

    async def treat(self, request: SeenRequest) -> int:
        """Wait as long as the answer to a commit has to; return the error that it gets, or 0."""
        policy = self.policy
        await asyncio.sleep(policy.excess_delay_s if request.excess else policy.delay_s)
        await self._commits_go.wait()
        return policy.excess_code if request.excess else 0

    def answered(self, request: SeenRequest) -> None:
        """Note that a request is in flight no more."""
        request.answered_at_s = time.monotonic()
        self.commits_in_flight -= request.api_key == ApiKey.OFFSET_COMMIT


class KafkaLink(Link):
    """One client's connection, seen as frames."""

    def __init__(self, proxy: KafkaProxy, client: Streams, server: Streams) -> None:
        super().__init__(proxy, client, server)
        self._kafka = proxy
        self._requests, self._answers = Frames(), Frames()
        # A broker answers the requests of a connection in their order.
        self._waiting: deque[SeenRequest] = deque()
        # The error of this connection's outputs, once its producers are forgotten.
        self.code = 0

    def close(self) -> None:
        """See `Link.close`. A request without an answer is in flight no more."""
        while self._waiting:
            self._kafka.answered(self._waiting.popleft())
        super().close()

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole requests on, the refused ones damaged; close the connection at a foreign version."""
        proxy = self._kafka
        for frame in self._requests.add(data):
            request = await proxy.note(frame)
            oldest, newest = (proxy.versions or {}).get(request.api_key, (0, -1))
            if proxy.versions is not None and not oldest <= request.version <= newest:
                proxy.foreign.append((request.api_key, request.version))
                self.close()
                return
            self._waiting.append(request)
            if request.api_key == ApiKey.INIT_PRODUCER_ID and self.code == UNKNOWN_PRODUCER_ID:
                self.code = 0
            if request.api_key == ApiKey.PRODUCE:
                chosen = proxy.code_of(produced(frame, request.version)) if proxy.code_of else 0
                request.code = self.code or chosen
            yield self._damaged(frame) if request.code else frame

    def _damaged(self, frame: bytes) -> bytes:
        self._kafka.refused_requests += 1
        damaged = bytearray(frame)
        damaged[DAMAGED_AT] ^= 0xFF
        return bytes(damaged)

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole answers on when it is time, changed where a fault says so."""
        for frame in self._answers.add(data):
            (number,) = struct.unpack_from(">i", frame, 4)
            while self._waiting and self._waiting[0].number != number:
                self._kafka.answered(self._waiting.popleft())  # a request without an answer (produce, acks=0)
            if not self._waiting:
                yield frame
                continue
            request = self._waiting[0]
            answer = await self._changed(frame, request)
            if self._waiting and self._waiting[0] is request:
                self._waiting.popleft()
                self._kafka.answered(request)
            yield answer

    async def _changed(self, frame: bytes, request: SeenRequest) -> bytes:
        proxy = self._kafka
        if request.api_key == ApiKey.OFFSET_COMMIT and (code := await proxy.treat(request)):
            return with_commit_error(frame, request.version, code)
        if request.api_key == ApiKey.API_VERSIONS and proxy.versions is not None:
            proxy.changed_answers += 1
            return with_versions(frame, request.version, proxy.versions)
        if request.api_key != ApiKey.PRODUCE:
            return frame
        answer = with_produce_error(frame, request.version, request.code) if request.code else frame
        if late_s := proxy.throttle_s:
            await asyncio.sleep(late_s)
            answer = with_throttle(answer, request.version, round(late_s * 1000))
        return answer


def produced(frame: bytes, version: int) -> Produced:
    """Return where a Produce request of one partition goes."""
    fields = Fields(frame, 12)  # behind size, key, version and number
    fields.text()  # the client's name, in the old encoding always
    fields.flexible = version >= 9
    fields.tags()
    fields.text()  # the transactional id
    fields.at += 6  # acks and the time-out
    assert fields.count() == 1
    topic = fields.text()
    assert fields.count() == 1
    return Produced(topic, fields.number(), frame)


# By Kafka's protocol guide: an answer begins with its size and correlation id.


def with_produce_error(frame: bytes, version: int, code: int) -> bytes:
    """Return the answer to a Produce request of one partition with another error."""
    fields = Fields(frame, 8, flexible=version >= 9)
    fields.tags()
    assert fields.count() == 1
    fields.text()
    assert fields.count() == 1
    fields.number()
    found = fields.number(2)
    assert found == CORRUPT_MESSAGE, f"the broker answered a damaged request with {found}"
    fields.at -= 2
    fields.put(code, 2)
    return bytes(fields.frame)


def with_throttle(frame: bytes, version: int, throttle_ms: int) -> bytes:
    """Return the answer to a Produce request with a throttle time, which stands at its end."""
    end = len(frame) - (1 if version >= 9 else 0)
    return frame[: end - 4] + throttle_ms.to_bytes(4, "big") + frame[end:]


def with_commit_error(frame: bytes, version: int, code: int) -> bytes:
    """Return an OffsetCommit answer in which every partition is refused with `code`.

    From version 3 on a throttle time comes first; version 10 has topic ids instead of names.
    """
    fields = Fields(frame, 8, flexible=version >= 8)
    fields.tags()
    fields.at += 4 if version >= 3 else 0
    for _ in range(fields.count()):
        fields.take(16) if version >= 10 else fields.text()
        for _ in range(fields.count()):
            fields.number()
            fields.put(code, 2)
            fields.tags()
        fields.tags()
    return bytes(fields.frame)


def with_versions(frame: bytes, version: int, offered: Mapping[int, tuple[int, int]]) -> bytes:
    """Return an answer to ApiVersions with only the versions that the broker has and that are offered.

    Its header is the old one in each version. From version 3 on the list is compact, and each entry ends with
    tagged fields, of which there are none.
    """
    fields = Fields(frame, 10, flexible=version >= 3)  # behind size, correlation id and error
    kept = []
    for _ in range(fields.count()):
        api_key, oldest, newest = fields.number(2), fields.number(2), fields.number(2)
        fields.tags()
        first, last = offered.get(api_key, (0, -1))
        oldest, newest = max(oldest, first), min(newest, last)
        if oldest <= newest:
            kept.append(struct.pack(">hhh", api_key, oldest, newest) + (b"\0" if fields.flexible else b""))
    size = bytes([len(kept) + 1]) if fields.flexible else struct.pack(">i", len(kept))
    body = frame[4:10] + size + b"".join(kept) + frame[fields.at :]
    return struct.pack(">i", len(body)) + body
