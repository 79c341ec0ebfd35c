"""The versions of requests that an Event Hubs namespace offers, and no others.

`EHKAFKA_VERSIONS=namespace python -m pytest -n 4 tests/contract` runs all of the contract with them. Each run
of all tests has `tests/integration/test_namespace_versions.py`.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from ehkafka.embedded.broker import EmbeddedBroker
from tests.kit.namespace_versions import NAMESPACE, offer_namespace_versions

if TYPE_CHECKING:
    import pytest


def test_the_stand_in_offers_no_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own answer to ApiVersions 0: each within a namespace's, none of another type."""
    offer_namespace_versions(monkeypatch)
    with EmbeddedBroker({"t": 1}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), 10.0) as connection:
            connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            answer = connection.makefile("rb")
            body = answer.read(int.from_bytes(answer.read(4), "big"))
    (count,) = struct.unpack_from(">i", body, 6)
    found = {key: bounds for key, *bounds in struct.iter_unpack(">hhh", body[10 : 10 + 6 * count])}
    wide = [
        key for key, (oldest, newest) in found.items() if key not in NAMESPACE or newest > NAMESPACE[key][1]
    ]
    assert (found[1], found[3], found[8], found[22]) == ([4, 6], [0, 5], [0, 8], [0, 1])
    assert wide == []
