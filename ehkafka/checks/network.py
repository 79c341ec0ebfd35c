"""The way to one address: the steps `dns`, `tcp` and `tls`, and the connections that they open.

Each connection is made within the step's time. The TLS context is made of the same properties that
librdkafka gets, so that the answers agree.
"""

from __future__ import annotations

import socket
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.checks.hello import Speaks, who_answers
from ehkafka.checks.result import SETTINGS_CODE, Finding, NotMeasured, Problem
from ehkafka.endpoint.bootstrap import is_event_hubs_host
from ehkafka.endpoint.keys.connection_string import EMULATOR_KAFKA_PORT, KAFKA_PORT
from ehkafka.endpoint.properties.setting_checks import UNCHECKED
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checks.inspection import Address, Inspection

# OpenSSL's numbers, X509_V_ERR_….
_NOT_YET_VALID, _EXPIRED = 9, 10
_SELF_SIGNED = (18, 19)
_NO_ISSUER = (2, 20, 21)
_OTHER_NAME = (62, 64)
_SOON_DAYS = 14
_CERTIFICATE, _HOST_NAME = UNCHECKED
# Forms of a client certificate that Python cannot load without writing it to a file.
_UNLOADABLE = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem")


def dns(inspection: Inspection, subject: str | None) -> Finding:
    """Resolve the host and keep its addresses for the next steps."""
    assert subject is not None
    host, port = inspection.addresses[subject]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        shown = getattr(error, "strerror", None) or str(error)
        raise Problem(f"{host} has no address: {shown}", _dns_fix(host)) from None
    found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    inspection.resolved[subject] = found
    same = found == [host]
    return Finding("an address already" if same else f"{', '.join(found[:4])}", {"addresses": found})


def _dns_fix(host: str) -> str:
    if is_event_hubs_host(host):
        return (
            "Check the namespace's spelling; with a private endpoint, that its DNS zone is linked to this"
            " network."
        )
    return "Check the host's spelling, and that this machine's resolver knows it."


def tcp(inspection: Inspection, subject: str | None) -> Finding:
    """Connect and hang up."""
    assert subject is not None
    address = inspection.addresses[subject]
    began_s = time.monotonic()
    try:
        dial(inspection, address).close()
    except ConnectionRefusedError:
        raise Problem(f"no server listens on port {address.port}", _port_fix(inspection, address)) from None
    except TimeoutError:
        raise Problem(
            f"no answer within {seconds(inspection.timeout_s)}",
            f"A firewall drops the packets, or the host is off: let this machine reach port {address.port} "
            f"of that host, or link the DNS zone of the private endpoint.",
        ) from None
    except OSError as error:
        raise Problem(
            f"the host cannot be reached: {error.strerror or error}",
            "Check the network, its routes and the firewall.",
        ) from None
    took_s = time.monotonic() - began_s
    return Finding(f"connected in {took_s * 1000:.0f} ms", {"connect_s": round(took_s, 4)})


def _port_fix(inspection: Inspection, address: Address) -> str:
    usual = KAFKA_PORT if inspection.target.endpoint.kind == "event-hubs" else EMULATOR_KAFKA_PORT
    if address.port == usual:
        return "Start the broker there, or correct the host."
    return (
        "Correct the port, or start the broker. Event Hubs listens on 9093, its emulator and most brokers"
        " on 9092."
    )


def tls(inspection: Inspection, subject: str | None) -> Finding:
    """Shake hands and tell what the certificate says."""
    assert subject is not None
    address = inspection.addresses[subject]
    if not inspection.protocol.endswith("SSL"):
        raise NotMeasured(f"security.protocol is {inspection.protocol}: nothing is encrypted")
    try:
        with dial_secured(inspection, address) as connection:
            version = connection.version()
            certificate = connection.getpeercert() or {}
    except ssl.SSLCertVerificationError as error:
        raise _not_trusted(inspection, address, error) from None
    except TimeoutError:
        raise Problem(
            f"the server sent no TLS handshake within {seconds(inspection.timeout_s)}",
            "Check that this is the broker's TLS port, and that no proxy is on the route.",
        ) from None
    except OSError as error:
        raise _no_tls(inspection, address, error) from None
    return _described(inspection, version, certificate)


def _described(inspection: Inspection, version: str | None, certificate: dict[str, Any]) -> Finding:
    if not checks(inspection.properties, _CERTIFICATE):
        return Finding(
            f"{version}, but enable.ssl.certificate.verification is off: any server could pose as a broker",
            {"version": version, "verified": False},
        )
    expires = _time(certificate["notAfter"])
    days = (expires - datetime.now(UTC)).days
    names = [value for _kind, value in certificate.get("subjectAltName", ())]
    soon = f" (expires soon, in {days} days)" if days < _SOON_DAYS else ""
    name = "" if checks(inspection.properties, _HOST_NAME) else "; its host name is not checked"
    return Finding(
        f"{version}; certificate by {_name(certificate.get('issuer'))}, valid until {expires:%Y-%m-%d}{soon};"
        f" trusted by {authorities(inspection.properties)}{name}",
        {
            "version": version,
            "verified": True,
            "names": names,
            "issuer": _name(certificate.get("issuer")),
            "not_before": _time(certificate["notBefore"]).isoformat(),
            "not_after": expires.isoformat(),
            "authorities": authorities(inspection.properties),
        },
    )


def _not_trusted(inspection: Inspection, address: Address, error: ssl.SSLCertVerificationError) -> Problem:
    code = error.verify_code
    trusted = authorities(inspection.properties)
    if code == _EXPIRED:
        what, fix = "the certificate has expired", "Renew the broker's certificate, or set this clock right."
    elif code == _NOT_YET_VALID:
        what, fix = "the certificate is not valid yet", "Set this machine's clock right."
    elif code in _SELF_SIGNED:
        what = f"the certificate is self-signed, or its authority is not among the trusted ones ({trusted})"
        fix = (
            "Give the authority's certificate in ssl.ca.location; on Event Hubs look for a proxy in between."
        )
    elif code in _NO_ISSUER:
        what = f"the certificate's authority is not among the trusted ones ({trusted})"
        fix = "Give that authority's certificate in ssl.ca.location, or install ca-certificates."
    elif code in _OTHER_NAME:
        what = f"the certificate is not for the host {address.host}"
        fix = "Connect by a name in the certificate, or issue one for this name."
    else:
        what, fix = "the certificate is refused", "Fix the cause that OpenSSL names."
    return Problem(f"{what} (OpenSSL {code}: {error.verify_message})", fix, facts={"verify_code": code})


def _no_tls(inspection: Inspection, address: Address, error: OSError) -> Problem:
    """Ask once more without TLS, to tell a plain-text broker from everything else."""
    shown = getattr(error, "reason", None) or error.strerror or type(error).__name__
    try:
        with dial(inspection, address) as plain:
            plain.settimeout(inspection.remaining_s)
            speaks = who_answers(plain)
    except OSError:
        speaks = Speaks.CLOSED
    if speaks is Speaks.KAFKA:
        other = "SASL_PLAINTEXT" if inspection.mechanism else "PLAINTEXT"
        return Problem(
            f"the port speaks Kafka in plain text, but security.protocol is {inspection.protocol} ({shown})",
            f"Use the broker's TLS port. If you want plain text, set security.protocol={other}.",
        )
    return Problem(
        f"the port does not speak TLS ({shown}); without TLS {speaks.value}",
        "Check that the port is the broker's TLS port (Event Hubs: 9093) and that no proxy is in between.",
    )


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def _name(parts: Any) -> str:
    """Return the common name, or the organisation, of an issuer."""
    flat = {name: value for part in parts or () for name, value in part}
    return str(flat.get("commonName") or flat.get("organizationName") or "an unnamed authority")


def dial(inspection: Inspection, address: Address) -> socket.socket:
    """Connect to the first resolved address that takes it; `OSError` when none does."""
    refusal: OSError | None = None
    for host in inspection.resolved.get(str(address), [address.host]):
        try:
            return socket.create_connection((host, address.port), timeout=inspection.remaining_s)
        except OSError as error:
            refusal = error
    assert refusal is not None
    raise refusal


def dial_secured(inspection: Inspection, address: Address) -> ssl.SSLSocket:
    """Connect and shake hands; `ssl.SSLError` or `OSError` when that fails."""
    context = tls_context(inspection.properties)
    plain = dial(inspection, address)
    try:
        plain.settimeout(inspection.remaining_s)
        return context.wrap_socket(plain, server_hostname=address.host)
    except BaseException:
        plain.close()
        raise


def checks(properties: Mapping[str, object], what: str) -> bool:
    """Whether librdkafka verifies the certificate at all, or compares its names with the host."""
    return not (what in properties and UNCHECKED[what](properties[what]))


def authorities(properties: Mapping[str, object]) -> str:
    """Say whose signatures count."""
    if "ssl.ca.pem" in properties:
        return "the property ssl.ca.pem"
    location = str(properties.get("ssl.ca.location", "probe"))
    return "this system's authorities" if location == "probe" else location


def tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context that trusts what the properties say."""
    if given := [name for name in _UNLOADABLE if name in properties]:
        raise NotMeasured(f"only librdkafka can use {given[0]}; the step auth shows whether TLS works")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not (checks(properties, _CERTIFICATE) and checks(properties, _HOST_NAME)):
        context.check_hostname = False
    if not checks(properties, _CERTIFICATE):
        context.verify_mode = ssl.CERT_NONE
    try:
        _trust(context, properties)
        if "ssl.certificate.location" in properties:
            context.load_cert_chain(
                properties["ssl.certificate.location"],
                properties.get("ssl.key.location"),
                # Without one Python would ask at the terminal.
                password=str(properties.get("ssl.key.password", "")),
            )
    except OSError as error:  # which ssl.SSLError is, too
        raise Problem(
            f"the files of the ssl.* properties cannot be read: {error.strerror or error}",
            "Correct ssl.ca.location, ssl.certificate.location and ssl.key.location: give existing PEM "
            "files.",
            exit_code=SETTINGS_CODE,
        ) from None
    return context


def _trust(context: ssl.SSLContext, properties: Mapping[str, object]) -> None:
    location = Path(str(properties.get("ssl.ca.location", "probe")))
    if "ssl.ca.pem" in properties:
        context.load_verify_locations(cadata=str(properties["ssl.ca.pem"]))
    elif str(location) == "probe":
        context.load_default_certs()
    elif location.is_dir():
        context.load_verify_locations(capath=location)
    else:
        context.load_verify_locations(cafile=location)
