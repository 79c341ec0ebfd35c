"""What answers there: the step `kafka`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.checks.hello import Speaks, who_answers
from ehkafka.checks.network import dial, dial_secured
from ehkafka.checks.result import Finding, Problem
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection

_FIXES = {
    Speaks.TLS: "Set security.protocol to SSL or SASL_SSL, or use the broker's plain-text port.",
    Speaks.HTTP: "A web server or proxy answers on this port: correct the port (Event Hubs: 9093, not 443).",
    Speaks.AMQP: "This is the AMQP port: correct the port (Event Hubs: 9093 for Kafka).",
}
_OTHER_FIX = "Check that host and port are a Kafka broker's, and that no proxy is in between."


def kafka(inspection: Inspection, subject: str | None) -> Finding:
    """Say hello, encrypted where the client would."""
    assert subject is not None
    address = inspection.addresses[subject]
    is_secured = inspection.protocol.endswith("SSL")
    try:
        connection = dial_secured(inspection, address) if is_secured else dial(inspection, address)
    except OSError as error:
        raise Problem(f"a new connection failed: {error.strerror or error}", _OTHER_FIX) from None
    with connection:
        connection.settimeout(inspection.remaining_s)
        speaks = who_answers(connection)
    if speaks is Speaks.KAFKA:
        inspection.is_kafka_there = True
        return Finding("a Kafka broker answers")
    if speaks is Speaks.SILENT:
        raise Problem(
            f"the port is open, but did not answer within {seconds(inspection.timeout_s)}", _OTHER_FIX
        )
    text = speaks.value
    if speaks is Speaks.TLS:
        text += f", but security.protocol is {inspection.protocol}"
    raise Problem(text, _FIXES.get(speaks, _OTHER_FIX))
