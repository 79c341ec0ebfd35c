"""Certificates that a client must not trust, each distinguished from the others."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import trustme

import ehkafka
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.checks.result import CheckResult

DAY = timedelta(days=1)
NOW = datetime.now(UTC)


@contextmanager
def tls_server(leaf: trustme.LeafCert) -> Iterator[str]:
    """Shake hands with each client, and hang up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()  # the client refused the certificate

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5.0)


def tls_step(leaf: trustme.LeafCert, trusted: trustme.CA | None, tmp_path: Path, **more: Any) -> CheckResult:
    """Return what the step says of a server with this certificate."""
    properties: dict[str, Any] = {"security.protocol": "SSL", **more}
    if trusted is not None:
        trusted.cert_pem.write_to_path(tmp_path / "ca.pem")
        properties["ssl.ca.location"] = str(tmp_path / "ca.pem")
    with tls_server(leaf) as address:
        endpoint = ehkafka.Endpoint.kafka(address, properties)
        report = run_checks(Target(endpoint=endpoint), timeout_s=5.0)
    (found,) = [result for result in report.results if result.name == "tls"]
    return found


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Return an authority of our own."""
    return trustme.CA()


@pytest.mark.parametrize(
    ("host", "dates", "status", "shown", "fix"),
    [
        ("127.0.0.1", {}, "ok", "valid until", ""),
        ("127.0.0.1", {"not_after": NOW + 3.5 * DAY}, "ok", "soon, in 3 days", ""),
        (
            "127.0.0.1",
            {"not_before": NOW - 9 * DAY, "not_after": NOW - DAY},
            "failed",
            "has expired",
            "clock",
        ),
        ("127.0.0.1", {"not_before": NOW + DAY, "not_after": NOW + 9 * DAY}, "failed", "not valid", "clock"),
        ("other.example", {}, "failed", "not for the host 127.0.0.1", ""),
    ],
)
def test_a_certificate_of_a_trusted_authority(
    authority: trustme.CA, tmp_path: Path, host: str, dates: Any, status: str, shown: str, fix: str
) -> None:
    """What is wrong with it and what to do; else which file has its authority."""
    found = tls_step(authority.issue_cert(host, **dates), authority, tmp_path)
    assert found.status == status
    assert shown in found.text
    assert fix in (found.fix or "")
    assert status == "failed" or str(tmp_path / "ca.pem") in found.text


def test_an_unknown_authority(authority: trustme.CA, tmp_path: Path) -> None:
    """Only the system's are trusted."""
    found = tls_step(authority.issue_cert("127.0.0.1"), None, tmp_path)
    assert "this system's authorities" in found.text
    assert "ssl.ca.location" in (found.fix or "")


def test_verification_that_is_off_is_said(authority: trustme.CA, tmp_path: Path) -> None:
    """It passes as the client would let it pass, and says what that means."""
    more = {"enable.ssl.certificate.verification": False}
    found = tls_step(authority.issue_cert("other.example"), None, tmp_path, **more)
    assert found.status == "ok"
    assert "any server could pose as a broker" in found.text


def test_a_file_of_authorities_that_is_not_there(authority: trustme.CA, tmp_path: Path) -> None:
    """A setting is wrong, and the exit code says so."""
    missing = {"ssl.ca.location": str(tmp_path / "none.pem")}
    found = tls_step(authority.issue_cert("127.0.0.1"), None, tmp_path, **missing)
    assert found.status == "failed"
    assert found.exit_code == 2
    assert "No such file" in found.text
