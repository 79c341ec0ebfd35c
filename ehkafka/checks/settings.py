"""Step `settings`: whether the app's start would accept them, and the installed client is fit for use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import confluent_kafka

from ehkafka.checks.finding import Finding, Trouble
from ehkafka.endpoint.client import check_client_version
from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Lay the properties over one another as the app does, and keep them for the other steps."""
    target = inspection.target
    try:
        check_client_version()
        # An app would make the topics that it lacks there.
        target.endpoint.prepare_topics(target.topics)
        inspection.use(target.client_properties())
    except EhkafkaError as error:
        raise Trouble(str(error), "Correct it; the app would not start.", exit_code=error.exit_code) from None
    version = confluent_kafka.version()
    return Finding(
        f"{len(inspection.properties)} properties for {target.endpoint.name}; confluent-kafka {version}",
        {"security_protocol": inspection.protocol, "confluent_kafka": str(version)},
    )
