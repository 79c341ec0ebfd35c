"""A proxy by which a real broker answers chosen Produce requests with chosen errors, and others late.

It can forget its producers, too: what they send is refused as unknown. What is refused is not written: the
request is damaged on its way, so that the broker refuses all of it as corrupt, and the answer gets another
error. Plain text only, of clients that send one partition in a request, as librdkafka.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.embedded.requests import ApiKey
from tests.kit.faults.commit_throttle import Frames, behind_tags, length_at
from tests.kit.faults.tcp_link import Link, Streams
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

UNKNOWN_PRODUCER_ID = 59
CORRUPT_MESSAGE = 2
# From this version on lengths are variable, and every structure ends with tagged fields.
FLEXIBLE_FROM = 9
# From the end of a request: behind it are a header count and tagged fields, four bytes at most.
DAMAGED_AT = -6


@dataclass(frozen=True, slots=True)
class Produced:
    """One Produce request: where it goes, and all of its bytes."""

    topic: str
    partition: int
    frame: bytes


def no_error(_request: Produced) -> int:
    """Let everything pass."""
    return 0


class AnsweringProxy(TcpProxy):
    """A `TcpProxy` that asks for the error of each Produce request."""

    def __init__(self) -> None:
        super().__init__()
        # Set by tests, read for each request: 0 lets it pass.
        self.code_of: Callable[[Produced], int] = no_error
        # How late, in seconds, each answer to Produce comes; the answer says so, as a throttling broker's.
        self.throttle_s = 0.0
        self._released = asyncio.Event()
        self._released.set()
        # Added to by the proxy's thread.
        self.refused_requests = 0
        self.producer_ids = 0

    def calm(self) -> None:
        """End all faults, and count from 0."""
        self.code_of, self.throttle_s = no_error, 0.0
        self.release_transactions()
        self.refused_requests = self.producer_ids = 0
        self.heal()

    def hold_transactions(self) -> None:
        """Keep what ends a transaction from the broker, and all behind it, from now on."""
        self._in_loop(self._released.clear)

    def release_transactions(self) -> None:
        """Let it through again."""
        self._in_loop(self._released.set)

    async def release(self) -> None:
        """Wait while it is held."""
        await self._released.wait()

    def forget(self, code: int) -> None:
        """Refuse what comes by the connections of now: for ever, or with 59 until an id is asked for."""

        def mark() -> None:
            for link in self._links:
                assert isinstance(link, AnsweringLink)
                link.code = code

        self._in_loop(mark)

    def link(self, client: Streams, server: Streams) -> Link:
        """See `TcpProxy.link`."""
        return AnsweringLink(self, client, server)


class AnsweringLink(Link):
    """One client's connection. On the proxy's thread."""

    def __init__(self, proxy: AnsweringProxy, client: Streams, server: Streams) -> None:
        super().__init__(proxy, client, server)
        self._answering = proxy
        self._requests = Frames()
        self._answers = Frames()
        # By correlation id of a Produce request: its version, and the error that its answer gets.
        self._produced: dict[int, tuple[int, int]] = {}
        # What the producers of this connection get, once they are forgotten.
        self.code = 0

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole requests on; damage those that are to be refused."""
        proxy = self._answering
        for frame in self._requests.add(data):
            api_key, version, number = struct.unpack_from(">hhi", frame, 4)
            if api_key == ApiKey.END_TXN:
                await proxy.release()
            if api_key == ApiKey.INIT_PRODUCER_ID:
                proxy.producer_ids += 1
                self.code = 0 if self.code == UNKNOWN_PRODUCER_ID else self.code
            if api_key != ApiKey.PRODUCE:
                yield frame
                continue
            code = self.code or proxy.code_of(request_of(frame, version))
            self._produced[number] = version, code
            if code:
                proxy.refused_requests += 1
                damaged = bytearray(frame)
                damaged[DAMAGED_AT] ^= 0xFF
                yield bytes(damaged)
            else:
                yield frame

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole answers on, those to Produce when it is time and with their errors."""
        for frame in self._answers.add(data):
            (number,) = struct.unpack_from(">i", frame, 4)
            version, code = self._produced.pop(number, (0, 0))
            answer = with_produce_error(frame, version, code) if code else frame
            if version and (late_s := self._answering.throttle_s):
                await asyncio.sleep(late_s)
                answer = with_throttle(answer, version, round(late_s * 1000))
            yield answer


def request_of(frame: bytes, version: int) -> Produced:
    """Return where a Produce request of one partition goes."""
    flexible = version >= FLEXIBLE_FROM
    request = bytearray(frame)
    _, at = _text_at(request, 12, flexible=False)  # the client's name, behind size, key, version and number
    at = behind_tags(request, at) if flexible else at
    _, at = _text_at(request, at, flexible=flexible)  # the transactional id
    topics, at = length_at(request, at + 6, flexible=flexible)  # behind acks and the time-out
    name, at = _text_at(request, at, flexible=flexible)
    partitions, at = length_at(request, at, flexible=flexible)
    assert (topics, partitions) == (1, 1)
    return Produced(name.decode(), int.from_bytes(request[at : at + 4], "big"), frame)


def with_produce_error(frame: bytes, version: int, code: int) -> bytes:
    """Return the answer to a request of one partition with another error."""
    answer = bytearray(frame)
    flexible = version >= FLEXIBLE_FROM
    at = behind_tags(answer, 8) if flexible else 8  # behind size and correlation id
    topics, at = length_at(answer, at, flexible=flexible)
    if flexible:
        name_bytes, at = length_at(answer, at, flexible=True)
    else:
        name_bytes, at = int.from_bytes(answer[at : at + 2], "big"), at + 2
    partitions, at = length_at(answer, at + name_bytes, flexible=flexible)
    assert (topics, partitions) == (1, 1)
    found = int.from_bytes(answer[at + 4 : at + 6], "big", signed=True)
    assert found == CORRUPT_MESSAGE, f"the broker answered a damaged request with {found}"
    answer[at + 4 : at + 6] = code.to_bytes(2, "big", signed=True)
    return bytes(answer)


def with_throttle(frame: bytes, version: int, throttle_ms: int) -> bytes:
    """Return the answer to a Produce request with a throttle time, which stands at its end."""
    end = len(frame) - (1 if version >= FLEXIBLE_FROM else 0)
    return frame[: end - 4] + throttle_ms.to_bytes(4, "big") + frame[end:]


def _text_at(request: bytearray, at: int, *, flexible: bool) -> tuple[bytes, int]:
    """Return the text that stands at a place, empty if there is none, and the place behind it."""
    if flexible:
        size, at = length_at(request, at, flexible=True)
    else:
        size, at = int.from_bytes(request[at : at + 2], "big", signed=True), at + 2
    end = at + max(0, size)
    return bytes(request[at:end]), end
