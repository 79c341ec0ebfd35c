"""A proxy that understands enough Kafka to treat OffsetCommit as Event Hubs does, and to count requests.

Responsible for the time and the number of commits: it delays their answers, refuses those beyond a rate,
holds them as long as a test says, and keeps a record of its own of every request. It reads frame sizes, API
keys and correlation ids; of an OffsetCommit answer the error codes too. Plain text only: it cannot see
into TLS. Runs on the proxy's thread; what it records may be read from any.
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
from tests.kit.faults.tcp_link import Link, Streams
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Users of azure-event-hubs-for-kafka#197 saw about 2 calls a second go through and the others take 1.1 s.
EVENT_HUBS_DELAY_S: Final = 1.1

_HEAD: Final = struct.Struct(">hhi")  # API key, API version, correlation id


@dataclass(frozen=True, slots=True)
class CommitPolicy:
    """What becomes of commits.

    Each answer comes `delay_s` late. Beyond `per_s` in any second a commit takes `excess_delay_s`, and is
    answered with the error `excess_code` if that is not 0 (the broker has stored it all the same).
    """

    delay_s: float = 0.0
    per_s: int | None = None
    excess_delay_s: float = EVENT_HUBS_DELAY_S
    excess_code: int = 0


@dataclass(slots=True)
class SeenRequest:
    """One request, on the clock of `time.monotonic()`. `in_flight` counts the commits, itself included."""

    api_key: int
    sent_at_s: float
    answered_at_s: float | None = None
    in_flight: int = 0
    excess: bool = False


class CommitThrottle(TcpProxy):
    """A `TcpProxy` with a `CommitPolicy`.

    ```python
    with CommitThrottle(broker.bootstrap) as proxy:
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
        # Set by tests, read for each commit.
        self.policy = policy or CommitPolicy()
        # Written by the proxy's thread; oldest first.
        self.requests: list[SeenRequest] = []
        self.commits_in_flight = 0
        self._released = asyncio.Event()
        self._released.set()

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
        self._in_loop(self._released.clear)

    def release_commits(self) -> None:
        """Let them through again."""
        self._in_loop(self._released.set)

    def link(self, client: Streams, server: Streams) -> Link:
        """See `TcpProxy.link`."""
        return CommitLink(self, client, server)

    # What follows runs on the proxy's thread.

    def note(self, api_key: int) -> SeenRequest:
        """Record a request that comes in."""
        request = SeenRequest(api_key, time.monotonic())
        if api_key == ApiKey.OFFSET_COMMIT:
            limit = self.policy.per_s
            recent = (
                [c for c in self.commits[-limit:] if request.sent_at_s - c.sent_at_s < 1.0] if limit else []
            )
            request.excess = limit is not None and len(recent) >= limit
            self.commits_in_flight += 1
            request.in_flight = self.commits_in_flight
        self.requests.append(request)
        return request

    async def treat(self, request: SeenRequest) -> int:
        """Wait as long as the answer to a commit has to; return the error that it gets, or 0."""
        policy = self.policy
        await asyncio.sleep(policy.excess_delay_s if request.excess else policy.delay_s)
        await self._released.wait()
        return policy.excess_code if request.excess else 0


class CommitLink(Link):
    """One client's connection, seen as frames."""

    def __init__(self, proxy: CommitThrottle, client: Streams, server: Streams) -> None:
        super().__init__(proxy, client, server)
        self._throttle = proxy
        self._requests = Frames()
        self._answers = Frames()
        # A broker answers the requests of a connection in their order: (correlation id, version, request).
        self._waiting: deque[tuple[int, int, SeenRequest]] = deque()

    def close(self) -> None:
        """See `Link.close`. What was not answered is in flight no more."""
        while self._waiting:
            self._answered(self._waiting.popleft()[2])
        super().close()

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Note the requests and pass them on as they are."""
        for frame in self._requests.add(data):
            api_key, version, correlation_id = _HEAD.unpack_from(frame, 4)
            self._waiting.append((correlation_id, version, self._throttle.note(api_key)))
        yield data

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole answers on, those to commits when it is time."""
        for frame in self._answers.add(data):
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            while self._waiting and self._waiting[0][0] != correlation_id:
                self._answered(self._waiting.popleft()[2])  # a request without an answer (produce, acks=0)
            if not self._waiting:
                yield frame
                continue
            _, version, request = self._waiting[0]
            answer = frame
            if request.api_key == ApiKey.OFFSET_COMMIT and (code := await self._throttle.treat(request)):
                answer = with_commit_error(frame, version, code)
            if self._waiting and self._waiting[0][2] is request:
                self._waiting.popleft()
                self._answered(request)
            yield answer

    def _answered(self, request: SeenRequest) -> None:
        request.answered_at_s = time.monotonic()
        if request.api_key == ApiKey.OFFSET_COMMIT:
            self._throttle.commits_in_flight -= 1


class Frames:
    """Cuts a stream into frames: four bytes of size, then so many bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """Take what came; return the frames that are whole now."""
        self._rest += data
        frames, at = [], 0
        while len(self._rest) - at >= 4:
            end = at + 4 + int.from_bytes(self._rest[at : at + 4], "big")
            if end > len(self._rest):
                break
            frames.append(bytes(self._rest[at:end]))
            at = end
        del self._rest[:at]
        return frames


def with_commit_error(frame: bytes, version: int, code: int) -> bytes:
    """Return an OffsetCommit answer in which every partition is refused with `code`.

    By Kafka's protocol guide: from version 3 on a throttle time comes first; from version 8 on lengths
    are variable and every structure ends with tagged fields; version 10 has topic ids instead of names.
    """
    answer = bytearray(frame)
    flexible = version >= 8
    at = 8  # behind size and correlation id
    at = behind_tags(answer, at) if flexible else at
    at += 4 if version >= 3 else 0
    topics, at = length_at(answer, at, flexible=flexible)
    for _ in range(topics):
        if version >= 10:
            at += 16
        elif flexible:
            name_bytes, at = length_at(answer, at, flexible=True)
            at += name_bytes
        else:
            at += 2 + int.from_bytes(answer[at : at + 2], "big")
        partitions, at = length_at(answer, at, flexible=flexible)
        for _ in range(partitions):
            answer[at + 4 : at + 6] = code.to_bytes(2, "big", signed=True)
            at = behind_tags(answer, at + 6) if flexible else at + 6
        at = behind_tags(answer, at) if flexible else at
    return bytes(answer)


def length_at(answer: bytearray, at: int, *, flexible: bool) -> tuple[int, int]:
    """Return the length that stands at a place, and the place behind it."""
    if not flexible:
        return int.from_bytes(answer[at : at + 4], "big"), at + 4
    value, at = _varint(answer, at)
    return value - 1, at  # compact: one more than the number, 0 for none


def behind_tags(answer: bytearray, at: int) -> int:
    """Return the place behind the tagged fields at a place."""
    count, at = _varint(answer, at)
    for _ in range(count):
        _, at = _varint(answer, at)
        size, at = _varint(answer, at)
        at += size
    return at


def _varint(answer: bytearray, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = answer[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
