"""What a client calls itself where its program gave no `client.id`: brokers show it, and so does `owners`."""

from __future__ import annotations

import itertools
import os
import socket

# Host names have 64 characters at most on Linux, 253 in DNS.
_HOST_CHARACTERS_MAX = 100


def host_name() -> str:
    """Return this machine's name in the characters that Kafka takes for names; in Kubernetes the pod's."""
    host = "".join(c for c in socket.gethostname() if c.isascii() and (c.isalnum() or c in "-._"))
    return host[:_HOST_CHARACTERS_MAX] or "host"


_numbers = itertools.count(1)


def next_number() -> int:
    """Return which consumer of this process one is that needs a name of its own; the first is 1."""
    return next(_numbers)


def numbered(number: int) -> str:
    """Return the name of one of several consumers of this process: the first has the process's own."""
    return client_name() if number == 1 else f"{client_name()}-{number}"


def client_name(program: str = "ehkafka") -> str:
    """Return a name by which a client's process can be found: `ehkafka-<host>-<pid>`.

    Asked for anew by each client, since a process may fork. Far below what the protocol takes (32 767 bytes);
    a member's id begins with it.
    """
    return f"{program}-{host_name()}-{os.getpid()}"
