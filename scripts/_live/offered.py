"""Which requests a broker offers: its answer to the first question of each client, before any login.

To be asked before groups are deleted: where the broker does not know that request, librdkafka ends the whole
process (librdkafka#3663).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from _live.probe import NotTried
from ehkafka.checks.hello import hello, read_up_to
from ehkafka.checks.inspection import Inspection
from ehkafka.checks.network import dial, dial_secured
from ehkafka.checks.target import Target

if TYPE_CHECKING:
    import socket

    from ehkafka import Endpoint

DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, CONSUMER_GROUP_HEARTBEAT = 15, 16, 42, 68
TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1 << 16


def offered_versions(endpoint: Endpoint) -> dict[int, tuple[int, int]]:
    """Return the oldest and the newest version by API key. Raises `NotTried` and `OSError`."""
    inspection = Inspection(Target(endpoint=endpoint), TIMEOUT_S)
    inspection.use(inspection.target.client_properties())
    address = next(iter(inspection.addresses.values()))
    is_secured = inspection.protocol.endswith("SSL")
    with dial_secured(inspection, address) if is_secured else dial(inspection, address) as connection:
        connection.settimeout(TIMEOUT_S)
        connection.sendall(hello())
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise NotTried(f"the answer would have {size} bytes")
        answer = _read(connection, size)
    error, count = struct.unpack_from(">hi", answer, 4)
    if error:
        raise NotTried(f"the answer has error {error}")
    found = (struct.unpack_from(">hhh", answer, 10 + 6 * place) for place in range(count))
    return {key: (oldest, newest) for key, oldest, newest in found}


def _read(connection: socket.socket, count: int) -> bytes:
    data = read_up_to(connection, count)
    if len(data) < count:
        raise NotTried("the connection was closed before the answer was whole")
    return data
