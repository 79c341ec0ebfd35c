"""Step `dns`: whether the host has an address, as the system's resolver sees it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ehkafka.checks.finding import Finding, Trouble
from ehkafka.endpoint.bootstrap import is_event_hubs_host

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection


def look(inspection: Inspection, subject: str | None) -> Finding:
    """Resolve the host and keep its addresses for the next steps."""
    assert subject is not None
    host, port = inspection.addresses[subject]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise Trouble(f"{host} has no address: {said}", _fix(host)) from None
    found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    inspection.resolved[subject] = found
    same = found == [host]
    return Finding("an address already" if same else f"{', '.join(found[:4])}", {"addresses": found})


def _fix(host: str) -> str:
    if is_event_hubs_host(host):
        return (
            "Check the namespace's spelling; with a private endpoint, that its DNS zone is linked to this"
            " network."
        )
    return "Check the host's spelling, and that this machine's resolver knows it."
