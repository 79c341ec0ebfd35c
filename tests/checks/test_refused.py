"""How long a client is asked for metadata while nothing lets it connect."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

import ehkafka
from ehkafka.checks import inspection, login
from ehkafka.checks.inspection import Inspection
from ehkafka.checks.result import Problem
from ehkafka.checks.target import Target

BROKEN, DOWN = KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN
FAILED = "{}:9/bootstrap: Connect to ipv4#10.0.0.1:9 failed: {} (after 0ms in state CONNECT)"
A, B = (KafkaError(BROKEN, FAILED.format(name, "Connection refused")) for name in "ab")
SECURED = KafkaError(BROKEN, "sasl_ssl://" + FAILED.format("b", "Connection refused"))
SLOW = KafkaError(BROKEN, FAILED.format("b", "Connection timed out"))


class Clock:
    """Time that passes while a request waits in vain."""

    now_s = 0.0

    def list_topics(self, timeout: float) -> NoReturn:
        """Wait for no answer."""
        self.now_s += timeout
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def consume(self, _count: int, _timeout_s: float) -> list[object]:
        """Bring nothing: what was heard is there from the beginning."""
        return []


@pytest.mark.parametrize(
    ("heard", "refused_s", "ends_after_s"),
    [
        ([A, B], 3.0, 3.75),
        ([A, SECURED, KafkaError(DOWN)], 3.0, 3.75),
        ([A, A], 3.0, 30.0),
        ([A, SLOW], 3.0, 30.0),
        ([A, B, SLOW], 3.0, 30.0),
        ([], 3.0, 30.0),
        ([A, B], inf, 30.0),
    ],
)
def test_what_every_address_refuses_ends_the_start_soon(
    monkeypatch: pytest.MonkeyPatch, heard: list[KafkaError], refused_s: float, ends_after_s: float
) -> None:
    """Only when asked for, and only when nothing else was heard: a slow address may still answer."""
    clock = Clock()
    for module in (inspection, login):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    found = Inspection(Target(endpoint=ehkafka.Endpoint.kafka("a:9,b:9")), 30.0)
    found.use({"bootstrap.servers": "a:9,b:9"})
    found.client_errors += heard
    monkeypatch.setattr(found, "consumer", lambda: clock)
    with pytest.raises(Problem, match="a:9, b:9 cannot be reached"):
        login.auth(found, None, refused_s=refused_s)
    assert clock.now_s == pytest.approx(ends_after_s)
