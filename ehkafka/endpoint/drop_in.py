"""Client properties of the drop-in consumer: the program's own, with what an endpoint adds to them.

Pure but for the embedded broker, which starts when its address is asked. The program's values win wherever
the service permits them; what is unsafe on Event Hubs is refused as for an app. Where the settings name no
Event Hubs, nothing is added and nothing refused: what confluent-kafka takes is taken. Opens no client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.bootstrap import hosts_in, is_event_hubs_host, listed
from ehkafka.endpoint.client_name import next_number, numbered
from ehkafka.endpoint.endpoint import Endpoint
from ehkafka.endpoint.properties import setting_checks
from ehkafka.endpoint.properties.layers import check_idle_times, set_timings
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.properties.setting_checks import ADDRESSES, Owned
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_TEXT = (bytes, int, list, tuple, set, frozenset, dict)
_ON_EVENT_HUBS = (
    Owned(
        "group.protocol",
        value="classic",
        reason="Event Hubs documents the classic group protocol alone",
        fix="Leave it out",
    ),
)


def endpoint_of(config: Mapping[str, object]) -> Endpoint | None:
    """Return the endpoint that a program's properties describe, if that is a namespace of Event Hubs."""
    given = [config[name] for name in ADDRESSES if config.get(name)]
    servers = next((one for one in given if any(map(is_event_hubs_host, hosts_in(one)))), None)
    if servers is None:
        return None
    # librdkafka passes over empty entries.
    entries = ",".join(entry for entry in str(servers).split(",") if entry.strip())
    try:
        return Endpoint.kafka(entries)
    except ConfigurationError:
        return None  # librdkafka says what is wrong with it


def with_servers(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the properties with the servers as one text. Raises `ConfigurationError` for what is no list.

    confluent-kafka makes a text of anything, and librdkafka looks for a host of that name without an end.
    """
    result = dict(config)
    for name in (name for name in ADDRESSES if config.get(name) is not None):
        servers = result[name] = listed(config[name])
        is_text = not isinstance(servers, _NO_TEXT)  # an object with a text is taken
        if not is_text or any(one in str(servers) for one in " ;'\""):
            what = "is not separated by commas" if is_text else "is neither text nor a list of texts"
            raise ConfigurationError(
                f"Consumer: {name} {what}: give 'host:port,host:port' or ['host:port', 'host:port']."
            )
    return result


def check_drop_in(config: Mapping[str, object]) -> None:
    """Refuse what is unsafe, whatever a program asks to be left alone. Raises `ConfigurationError`."""
    is_emulator = "UseDevelopmentEmulator=true" in str(config.get("sasl.password"))
    setting_checks.check_trust(config, kind="emulator" if is_emulator else None)


def drop_in_properties(endpoint: Endpoint, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a consumer of this endpoint needs with a program's properties, secrets in the clear.

    Raises `ConfigurationError` naming property, value, owner or limit, and the fix.
    """
    asked = in_one_spelling(config, "Consumer(…)")
    connection = endpoint.client_properties()
    setting_checks.check_connection(connection, asked)
    result = {**connection, **asked}
    setting_checks.check_trust(result, kind=endpoint.kind)
    if endpoint.is_event_hubs or endpoint.is_embedded:
        set_timings(result, is_embedded=endpoint.is_embedded)
        if "client.id" not in result:
            result["client.id"] = numbered(next_number())
    if endpoint.is_event_hubs:
        _check(endpoint, result)
    return result


def _check(endpoint: Endpoint, properties: dict[str, Any]) -> None:
    setting_checks.check_group(properties.get("group.id"), is_event_hubs=True)
    setting_checks.check_owned(properties, _ON_EVENT_HUBS)
    setting_checks.check_timings(properties, is_event_hubs=True)
    setting_checks.check_protocol(properties, is_emulator=endpoint.kind == "emulator")
    check_idle_times(properties)
    if "group.instance.id" in properties:
        setting_checks.check_instance_id(properties["group.instance.id"])
