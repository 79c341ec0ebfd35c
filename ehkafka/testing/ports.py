"""Chooses loopback ports that a broker can keep over restarts.

Called by `KafkaBroker` before each first start.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from ehkafka.errors import EndpointError

PORT_MIN = 15_000
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return `count` different ports that nothing listens on now.

    They lie below the kernel's ephemeral range. A client that keeps reconnecting to a stopped broker
    on an ephemeral port is one day given that very port as its source, connects to itself, and the
    broker cannot come back.
    """
    start = random.randrange(PORT_MIN, _port_end())  # noqa: S311 - no secret, only spreads the processes
    candidates = [*range(start, _port_end()), *range(PORT_MIN, start)]
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            break
        if _is_free(host, port):
            found.append(port)
    if len(found) < count:
        message = f"Only {len(found)} of {count} free ports between {PORT_MIN} and {_port_end()} on {host}"
        raise EndpointError(f"{message}; end other servers and try again")
    return found


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java's server sockets do: connections in TIME_WAIT do not block a listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _port_end() -> int:
    try:
        lowest = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_000  # not Linux; its usual range begins above
    # Some machines open the range down to 1024; then nothing below it is left to prefer.
    return lowest if lowest > PORT_MIN + 1000 else 32_000
