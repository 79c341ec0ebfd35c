"""Servers that are no brokers, or bad ones: every check ends in time and says what it met."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import ehkafka
from ehkafka.checks.result import CheckResult, Report, Status
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target
from ehkafka.embedded.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMEOUT_S = 0.5
SASL = {"sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "secret-secret"}
TLS = {"security.protocol": "SASL_SSL", **SASL}


@contextmanager
def server(serve: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """Run `serve` for each connection; yield the address. It listens on this machine alone."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def handle(connection: socket.socket) -> None:
        with connection:
            try:
                serve(connection, over)
            except OSError:
                return  # the client has gone

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=handle, args=(connection,), daemon=True))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        acceptor = threading.Thread(target=accept, daemon=True)
        acceptor.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
    for thread in [acceptor, *threads]:
        thread.join(5.0)


def silent(connection: socket.socket, over: threading.Event) -> None:
    """Take the connection and never say a word."""
    over.wait()


def saying(words: bytes) -> Callable[[socket.socket, threading.Event], None]:
    """Answer anything with the same bytes, and hang up."""

    def serve(connection: socket.socket, over: threading.Event) -> None:
        connection.recv(1000)
        connection.sendall(words)

    return serve


def dripping(connection: socket.socket, over: threading.Event) -> None:
    """Answer byte by byte, for ever."""
    while not over.wait(0.01):
        connection.sendall(b"\0")


def greeting_only(connection: socket.socket, over: threading.Event) -> None:
    """Answer the plain hello of the check as a broker would, and nothing that the client asks."""
    hello = connection.recv(1000)
    if hello[6:8] == b"\0\0":  # version 0 of the request
        connection.sendall(b"\0\0\0\x0a" + hello[8:12] + b"\0\0\0\0\0\0")
    over.wait()


def checked(address: str, properties: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> Report:
    """Check the address; fail when it takes longer than the steps may take together."""
    endpoint = ehkafka.Endpoint.kafka(address, properties)
    began_s = time.monotonic()
    report = run_checks(Target(endpoint=endpoint, group="g", topics=("t",)), timeout_s=timeout_s)
    assert time.monotonic() - began_s < 20 * timeout_s + 5.0
    return report


def the_failure(report: Report) -> CheckResult:
    """Return the one step that failed."""
    (failed,) = [result for result in report.results if result.status is Status.FAILED]
    assert report.exit_code == failed.exit_code
    return failed


@pytest.mark.parametrize(
    ("serve", "properties", "step", "shown"),
    [
        (silent, None, "kafka", "did not answer within 0.5 s"),
        (silent, TLS, "tls", "sent no TLS handshake within 0.5 s"),
        (dripping, None, "kafka", "no Kafka"),
        (dripping, TLS, "tls", "does not speak TLS"),
        (greeting_only, None, "auth", "does not answer this client"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), None, "kafka", "speaks HTTP"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"), TLS, "tls", "it speaks HTTP"),
        (saying(b"AMQP\0\1\0\0"), None, "kafka", "speaks AMQP"),
        (saying(b"\x15\x03\x01\0\x02\x02\x46"), None, "kafka", "but security.protocol is PLAINTEXT"),
        (saying(bytes(range(200, 256)) * 99), None, "kafka", "no Kafka"),
        (saying(b"\x7f\xff\xff\xff" * 99), TLS, "tls", "does not speak TLS"),
        (saying(b""), None, "kafka", "closes the connection"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_server_that_is_no_broker_is_named(
    serve: Callable[[socket.socket, threading.Event], None],
    properties: dict[str, str] | None,
    step: str,
    shown: str,
) -> None:
    """The step that meets it fails with what was seen; everything behind it is skipped; all ends in time."""
    # Only silence has to be waited out; for words there is time, however busy the machine is.
    timeout_s = TIMEOUT_S if serve in (silent, greeting_only) else 10 * TIMEOUT_S
    with server(serve) as address:
        report = checked(address, properties, timeout_s)
    failed = the_failure(report)
    assert failed.name == step
    assert shown in failed.text
    assert failed.fix
    assert failed.exit_code == 3
    assert all(r.status is not Status.OK for r in report.results if r.name in ("topic", "group", "commit"))


def test_a_dead_bootstrap_server_beside_a_live_one() -> None:
    """Each address is probed; the live one carries the rest."""
    with socket.socket() as bound, EmbeddedBroker({"t": 1}) as broker:
        bound.bind(("127.0.0.1", 0))
        dead = f"127.0.0.1:{bound.getsockname()[1]}"
        report = checked(f"{dead},{broker.bootstrap}", timeout_s=5.0)
    failed = the_failure(report)
    assert (failed.name, failed.subject) == ("tcp", dead)
    assert {r.name for r in report.results if r.status is Status.OK} >= {"auth", "topic", "offsets", "commit"}


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up has no time-out of its own: the step ends without it."""
    never = threading.Event()
    monkeypatch.setattr("ehkafka.checks.network.socket.getaddrinfo", lambda *_a, **_k: never.wait())
    failed = the_failure(checked("broker.invalid:9092", timeout_s=0.1))
    never.set()
    assert failed.name == "dns"
    assert "did not end within 0.1 s" in failed.text


def test_an_unknown_host() -> None:
    """A host without an address is reported with its name. No resolver knows `invalid`."""
    failed = the_failure(checked("no-such-broker.invalid:9092", timeout_s=10.0))
    assert failed.name == "dns"
    assert "no-such-broker.invalid has no address" in failed.text


@pytest.mark.parametrize(
    ("callback", "shown"),
    [
        # The step is cut off, and nothing waits for the callback.
        (lambda _config: threading.Event().wait(3.0), "did not end"),
        (lambda _config: 1 / 0, "oauth_cb raised ZeroDivisionError"),
        (lambda _config: "token", "oauth_cb returned str"),
        (lambda _config: ("", 1.0), "oauth_cb returned tuple"),
        (lambda _config: ("token", float("nan")), "oauth_cb returned tuple"),
        (lambda _config: ("opaque-token", 1.0), "the token has expired"),
    ],
)
def test_a_token_callback_that_fails(callback: Callable[[str], object], shown: str) -> None:
    """It is asked before the client is opened, whose constructor would hang; its error's text stays out."""
    oauth = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": callback}
    with EmbeddedBroker({"t": 1}) as broker:
        failed = the_failure(checked(broker.bootstrap, oauth, timeout_s=1.0))  # type: ignore[arg-type]
    assert failed.name == "token"
    assert shown in failed.text
    assert "opaque-token" not in failed.text


class RefusedCredential:
    """A credential whose secret has expired."""

    def get_token(self, *_scopes: str, **_options: object) -> object:
        """Raise as azure-identity does."""
        raise PermissionError("AADSTS7000222: the client secret keys are expired")


def test_a_credential_that_is_refused() -> None:
    """Entra ID gives no token: the credential's own error is reported at the token's step."""
    with EmbeddedBroker({"t": 1}) as broker:
        moved = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT"}
        endpoint = ehkafka.Endpoint.entra("home", credential=RefusedCredential(), properties=moved)
        failed = the_failure(run_checks(Target(endpoint=endpoint, topics=("t",)), timeout_s=2.0))
    assert failed.name == "token"
    assert "AADSTS7000222" in failed.text
