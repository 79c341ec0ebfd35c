"""A proxy by which a real broker forgets its producers: what they send is not written but refused as unknown.

It damages a request on its way, so that the broker refuses all of it as corrupt, and gives the answer
another error. Plain text only. For clients that send one partition in a request, as librdkafka.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ehkafka.embedded.requests import ApiKey
from tests.kit.faults.commit_throttle import Frames, behind_tags, length_at
from tests.kit.faults.tcp_link import Link, Streams
from tests.kit.faults.tcp_proxy import TcpProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

UNKNOWN_PRODUCER_ID = 59
CORRUPT_MESSAGE = 2
# From this version on lengths are variable, and every structure ends with tagged fields.
FLEXIBLE_FROM = 9
# From the end of a request: behind it are a header count and tagged fields, four bytes at most.
DAMAGED_AT = -6


class ForgetfulProxy(TcpProxy):
    """A `TcpProxy` whose connections can be forgotten."""

    def __init__(self) -> None:
        super().__init__()
        # How many requests were refused so. The proxy's thread adds.
        self.refused_requests = 0

    def forget(self, code: int) -> None:
        """Refuse what comes by the connections of now: for ever, or with 59 until an id is asked for."""

        def mark() -> None:
            for link in self._links:
                assert isinstance(link, ForgetfulLink)
                link.code = code

        self._in_loop(mark)

    def link(self, client: Streams, server: Streams) -> Link:
        """See `TcpProxy.link`."""
        return ForgetfulLink(self, client, server)


class ForgetfulLink(Link):
    """One client's connection. On the proxy's thread."""

    def __init__(self, proxy: ForgetfulProxy, client: Streams, server: Streams) -> None:
        super().__init__(proxy, client, server)
        self._forgetful = proxy
        self._requests = Frames()
        self._answers = Frames()
        # By correlation id: the version of a damaged request and the error that its answer gets.
        self._damaged: dict[int, tuple[int, int]] = {}
        self.code = 0

    async def requests(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole requests on; damage those that a forgotten producer sends."""
        for frame in self._requests.add(data):
            api_key, version, number = struct.unpack_from(">hhi", frame, 4)
            if api_key == ApiKey.INIT_PRODUCER_ID and self.code == UNKNOWN_PRODUCER_ID:
                self.code = 0
            if api_key != ApiKey.PRODUCE or not self.code:
                yield frame
                continue
            self._damaged[number] = version, self.code
            self._forgetful.refused_requests += 1
            damaged = bytearray(frame)
            damaged[DAMAGED_AT] ^= 0xFF
            yield bytes(damaged)

    async def answers(self, data: bytes) -> AsyncIterator[bytes]:
        """Pass whole answers on; say of a damaged request that its producer is unknown."""
        for frame in self._answers.add(data):
            (number,) = struct.unpack_from(">i", frame, 4)
            damaged = self._damaged.pop(number, None)
            yield frame if damaged is None else with_produce_error(frame, *damaged)


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
