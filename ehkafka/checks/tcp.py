"""Step `tcp`: whether anybody takes a connection at the address."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ehkafka.checks.dial import dial
from ehkafka.checks.finding import Finding, Trouble
from ehkafka.endpoint.keys.connection_string import EMULATOR_KAFKA_PORT, KAFKA_PORT
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Address, Inspection


def look(inspection: Inspection, subject: str | None) -> Finding:
    """Connect and hang up."""
    assert subject is not None
    address = inspection.addresses[subject]
    began_s = time.monotonic()
    try:
        dial(inspection, address).close()
    except ConnectionRefusedError:
        raise Trouble(f"nobody listens on port {address.port}", _port(inspection, address)) from None
    except TimeoutError:
        raise Trouble(
            f"no answer within {seconds(inspection.timeout_s)}",
            "A firewall swallows the packets, or the host is off: let this machine reach port"
            f" {address.port} there, or link the private endpoint's DNS zone.",
        ) from None
    except OSError as error:
        raise Trouble(
            f"no way there: {error.strerror or error}", "Check the network, its routes and the firewall."
        ) from None
    took_s = time.monotonic() - began_s
    return Finding(f"connected in {took_s * 1000:.0f} ms", {"connect_s": round(took_s, 4)})


def _port(inspection: Inspection, address: Address) -> str:
    usual = KAFKA_PORT if inspection.target.endpoint.kind == "event-hubs" else EMULATOR_KAFKA_PORT
    if address.port == usual:
        return "Start the broker there, or correct the host."
    return (
        "Correct the port, or start the broker. Event Hubs listens on 9093, its emulator and most brokers"
        " on 9092."
    )
