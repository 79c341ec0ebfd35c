"""Step `tls`: chain, host name and expiry of the server's certificate, by the client's own authorities."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ehkafka.checks.dial import authorities, checks_host_name, dial, dial_secured, verifies
from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.checks.hello import Speaks, who_answers
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Address, Inspection

# OpenSSL's numbers, X509_V_ERR_….
_NOT_YET_VALID, _EXPIRED = 9, 10
_SELF_SIGNED = (18, 19)
_NO_ISSUER = (2, 20, 21)
_OTHER_NAME = (62, 64)
_SOON_DAYS = 14


def look(inspection: Inspection, subject: str | None) -> Finding:
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
        raise Trouble(
            f"it took the connection and did not answer the handshake within {seconds(inspection.timeout_s)}",
            "Check that the port is the broker's TLS port and that no proxy stands in between.",
        ) from None
    except OSError as error:
        raise _no_tls(inspection, address, error) from None
    return _described(inspection, version, certificate)


def _described(inspection: Inspection, version: str | None, certificate: dict[str, Any]) -> Finding:
    if not verifies(inspection.properties):
        return Finding(
            f"{version}, but enable.ssl.certificate.verification is off: anybody could be the broker",
            {"version": version, "verified": False},
        )
    expires = _time(certificate["notAfter"])
    days = (expires - datetime.now(UTC)).days
    names = [value for _kind, value in certificate.get("subjectAltName", ())]
    soon = f" – soon, in {days} days" if days < _SOON_DAYS else ""
    name = "" if checks_host_name(inspection.properties) else "; its host name is not checked"
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


def _not_trusted(inspection: Inspection, address: Address, error: ssl.SSLCertVerificationError) -> Trouble:
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
        what = f"the certificate is for another name than {address.host}"
        fix = "Connect by a name that the certificate has, or issue it for this one."
    else:
        what, fix = "the certificate is refused", "Fix what OpenSSL names."
    return Trouble(f"{what} (OpenSSL {code}: {error.verify_message})", fix, facts={"verify_code": code})


def _no_tls(inspection: Inspection, address: Address, error: OSError) -> Trouble:
    """Ask once more without TLS, to tell a plain-text broker from everything else."""
    said = getattr(error, "reason", None) or error.strerror or type(error).__name__
    try:
        with dial(inspection, address) as plain:
            plain.settimeout(inspection.remaining_s)
            speaks = who_answers(plain)
    except OSError:
        speaks = Speaks.CLOSED
    if speaks is Speaks.KAFKA:
        other = "SASL_PLAINTEXT" if inspection.mechanism else "PLAINTEXT"
        return Trouble(
            f"the port speaks Kafka in plain text, but security.protocol is {inspection.protocol} ({said})",
            f"Use the broker's TLS port, or security.protocol={other} if that is what you want.",
        )
    return Trouble(
        f"the port does not speak TLS as we do ({said}); without TLS {speaks.value}",
        "Check that the port is the broker's TLS port (Event Hubs: 9093) and that no proxy stands in"
        " between.",
    )


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)


def _name(parts: Any) -> str:
    """Return the common name, or the organisation, of an issuer."""
    flat = {name: value for part in parts or () for name, value in part}
    return str(flat.get("commonName") or flat.get("organizationName") or "an unnamed authority")
