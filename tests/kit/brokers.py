"""How tests start a real server, and the one broker that a session of tests shares."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pytest

from ehkafka.errors import EhkafkaError
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener, ServerIdentity
from tests.kit.server_identity import issue_identity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

Server = TypeVar("Server")
KEY = "cmlnaHQtcmlnaHQtcmlnaHQtcmlnaHQ="
WRONG_KEY = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc="
# How often a session by a token authenticates again.
REAUTHENTICATE_S = 2.0


@contextmanager
def running(server: AbstractContextManager[Server], what: str = "Kafka broker") -> Iterator[Server]:
    """Start a server and stop it afterwards; without one a test is skipped, or fails where it is promised."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(server)
        except EhkafkaError as error:
            skip_or_fail(error, what)
        yield started


def skip_or_fail(error: EhkafkaError, what: str = "Kafka broker") -> NoReturn:
    """Skip on a laptop; fail where a broker was promised, because a skip there hides a lost test."""
    if os.environ.get("EHKAFKA_REQUIRE_BROKER") == "1" or os.environ.get("CI") == "true":
        pytest.fail(f"No {what}, and this run requires one: {error}", pytrace=False)
    pytest.skip(f"no {what}: {error}")


def connection_string(key: str = KEY) -> str:
    """Return that of a namespace."""
    name = "Endpoint=sb://here.servicebus.windows.net/;SharedAccessKeyName=app"
    return f"{name};SharedAccessKey={key}"


@cache
def server_identity() -> ServerIdentity:
    """Return the certificate of the shared broker's doors of Event Hubs."""
    return issue_identity()


def shared_broker(far_port: int) -> KafkaBroker:
    """Return a broker whose listener `far` is advertised at a proxy's port, with the doors of Event Hubs.

    `event_hubs` takes `connection_string()` and `entra` unsecured tokens, both over TLS. ACLs are obeyed
    where there are some; clients of the plain listener may do all. Quotas are averaged over two seconds, so
    that throttling shows soon.
    """
    identity = server_identity()
    users = {"$ConnectionString": connection_string()}
    return KafkaBroker(
        listeners={
            "far": Listener(advertised_port=far_port),
            "event_hubs": Listener(users=users, identity=identity),
            "entra": Listener(unsecured_tokens=True, identity=identity, reauthenticate_s=REAUTHENTICATE_S),
        },
        properties={
            "quota.window.num": 2,
            "quota.window.size.seconds": 1,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        },
    )
