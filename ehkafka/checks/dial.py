"""Opens plain and TLS connections for the probes, each within the step's time.

The TLS context is made of the same properties that librdkafka gets, so that the answers agree.
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.checks.finding import SETTINGS_CODE, NotMeasured, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.checks.inspection import Address, Inspection

# Forms of a client certificate that Python cannot load without writing it to a file.
_UNLOADABLE = ("ssl.keystore.location", "ssl.certificate.pem", "ssl.key.pem")


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


def is_true(value: object) -> bool:
    """Read a property as librdkafka reads a boolean."""
    return str(value).lower() in {"true", "t", "1"}


def checks_host_name(properties: Mapping[str, Any]) -> bool:
    """Whether librdkafka compares the certificate's names with the host."""
    return str(properties.get("ssl.endpoint.identification.algorithm", "https")).lower() != "none"


def verifies(properties: Mapping[str, Any]) -> bool:
    """Whether librdkafka verifies the certificate at all."""
    return is_true(properties.get("enable.ssl.certificate.verification", True))


def authorities(properties: Mapping[str, Any]) -> str:
    """Say whose signatures count."""
    if "ssl.ca.pem" in properties:
        return "the property ssl.ca.pem"
    location = str(properties.get("ssl.ca.location", "probe"))
    return "this system's authorities" if location == "probe" else location


def tls_context(properties: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a context that trusts what the properties say."""
    if given := [name for name in _UNLOADABLE if name in properties]:
        raise NotMeasured(f"{given[0]} is used by librdkafka alone; the step auth tells whether TLS works")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verifies(properties) or not checks_host_name(properties):
        context.check_hostname = False
    if not verifies(properties):
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
        raise Trouble(
            f"the files of the ssl.* properties cannot be read: {error.strerror or error}",
            "Correct ssl.ca.location, ssl.certificate.location and ssl.key.location: PEM files that exist.",
            exit_code=SETTINGS_CODE,
        ) from None
    return context


def _trust(context: ssl.SSLContext, properties: Mapping[str, Any]) -> None:
    location = Path(str(properties.get("ssl.ca.location", "probe")))
    if "ssl.ca.pem" in properties:
        context.load_verify_locations(cadata=str(properties["ssl.ca.pem"]))
    elif str(location) == "probe":
        context.load_default_certs()
    elif location.is_dir():
        context.load_verify_locations(capath=location)
    else:
        context.load_verify_locations(cafile=location)
