"""Tells of settings that are permitted but not wise: what the service recommends, or what exposes a key.

Pure: looks at values, refuses nothing (that is `refusals`' part) and changes nothing. Called once per
client with its final properties; our own defaults give no advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.bootstrap import bootstrap_hosts, is_loopback
from ehkafka.endpoint.properties import limits
from ehkafka.endpoint.properties.names import shown
from ehkafka.endpoint.properties.refusals import UNCHECKED, is_false, whole_number
from ehkafka.events import SettingAdvice
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.endpoint.endpoint import Endpoint


def consumer_advice(endpoint: Endpoint, properties: Mapping[str, Any]) -> list[SettingAdvice]:
    """Return what is advised against in a consumer's final properties."""
    found = [*_group(properties), *_security(endpoint, properties)]
    if endpoint.is_event_hubs:
        found += [*_membership_on_event_hubs(properties), *_idle_connections(properties)]
    return found


def producer_advice(endpoint: Endpoint, properties: Mapping[str, Any]) -> list[SettingAdvice]:
    """Return what is advised against in a producer's final properties."""
    found = [*_security(endpoint, properties)]
    if endpoint.is_event_hubs:
        found += [*_idle_connections(properties), *_produce_on_event_hubs(properties)]
    return found


def _group(properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    session_ms, heartbeat_ms = properties["session.timeout.ms"], properties["heartbeat.interval.ms"]
    fitting = limits.HEARTBEATS_PER_SESSION_RECOMMENDED
    if fitting * heartbeat_ms > session_ms:
        yield _advice(
            properties,
            "heartbeat.interval.ms",
            f"{fitting} heartbeats should fit into session.timeout.ms={session_ms}, or a single lost one may"
            f" end the membership. Set {session_ms // fitting} or less",
            limits.KAFKA_CONSUMER_SOURCE,
        )


def _membership_on_event_hubs(properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    if properties["session.timeout.ms"] < limits.SESSION_TIMEOUT_MS_RECOMMENDED:
        yield _recommended(properties, "session.timeout.ms", "A short silence already moves the partitions")
    # Only where three of the recommended length would fit: a short session needs a quicker heart.
    if properties["heartbeat.interval.ms"] > limits.HEARTBEAT_MS_RECOMMENDED:
        yield _recommended(properties, "heartbeat.interval.ms", "A dead member is noticed later")
    if properties["max.poll.interval.ms"] < limits.MAX_POLL_MS_RECOMMENDED:
        yield _recommended(properties, "max.poll.interval.ms", "A rebalance waits no longer than this")
    if "cooperative" in str(properties.get("partition.assignment.strategy", "")):
        yield _advice(
            properties,
            "partition.assignment.strategy",
            "Event Hubs documents no support for cooperative rebalances. Try it on your namespace, or leave"
            " App(assignor=…) at 'default'",
            "no statement found in the Event Hubs docs",
        )


def _idle_connections(properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    cut = f"Azure drops connections that were idle for {limits.IDLE_CONNECTION_S_MAX} s"
    for name, most in (
        ("metadata.max.age.ms", limits.METADATA_MAX_AGE_MS_RECOMMENDED),
        ("connections.max.idle.ms", limits.CONNECTIONS_MAX_IDLE_MS_RECOMMENDED),
    ):
        if properties[name] > most:
            yield _recommended(properties, name, cut)
    if is_false(properties["socket.keepalive.enable"]):
        yield _recommended(properties, "socket.keepalive.enable", cut)


def _produce_on_event_hubs(properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    timeout_ms, least = properties["request.timeout.ms"], limits.IDEMPOTENT_REQUEST_TIMEOUT_MS_MIN
    if timeout_ms < least and not is_false(properties.get("enable.idempotence", False)):
        yield _advice(
            properties,
            "request.timeout.ms",
            f"Event Hubs requires {least} or more of an idempotent producer, as ours is, or it may forget the"
            f" producer's id. Set {least}, or leave it out",
            limits.CLIENT_SETTINGS_SOURCE,
        )
    elif timeout_ms < limits.REQUEST_TIMEOUT_MS_RECOMMENDED:
        yield _recommended(properties, "request.timeout.ms", "The service itself may take 20 s")
    if str(properties.get("compression.type", "none")).strip().lower() == "gzip":
        yield _advice(
            properties,
            "compression.type",
            "Event Hubs supports gzip in the Premium and Dedicated tiers only. Leave it out on Standard",
            limits.OVERVIEW_SOURCE,
        )
    if "message.max.bytes" in properties:
        size_bytes = whole_number("message.max.bytes", properties["message.max.bytes"])
        below = limits.PRODUCE_REQUEST_BYTES_BELOW
        if size_bytes >= below:
            yield _advice(
                properties,
                "message.max.bytes",
                f"Event Hubs closes the connection on a produce request of {below} bytes or more, unless the"
                f" namespace is a Dedicated one with large messages. Set less than {below}",
                limits.CLIENT_SETTINGS_SOURCE,
            )


def _security(endpoint: Endpoint, properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    if all(map(is_loopback, bootstrap_hosts(properties["bootstrap.servers"]))):
        return
    protocol = str(properties.get("security.protocol", "plaintext")).lower()
    if "ssl" in protocol:
        yield from _unchecked_certificates(properties)
    elif endpoint.kind == "event-hubs":
        yield SettingAdvice(
            "security.protocol",
            protocol,
            "Event Hubs listens with TLS alone. Set SASL_SSL with its credentials, or use"
            " Endpoint.connection_string(…)",
            limits.CLIENT_SETTINGS_SOURCE,
        )
    elif protocol == "sasl_plaintext" and _sends_password(properties) and endpoint.kind == "kafka":
        yield _advice(
            properties,
            "security.protocol",
            "the password crosses the network unencrypted. Use SASL_SSL",
            limits.LIBRDKAFKA_SOURCE,
        )


def _unchecked_certificates(properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    exposed = "a machine in between can read the key and the records. Leave it out, and name your own"
    for name, is_off in UNCHECKED.items():
        if name in properties and is_off(properties[name]):
            yield _advice(
                properties,
                name,
                f"the broker's certificate is not checked: {exposed} authority in ssl.ca.location",
                limits.LIBRDKAFKA_SOURCE,
            )


def _sends_password(properties: Mapping[str, Any]) -> bool:
    return str(properties.get("sasl.mechanisms", "")).strip().upper() == "PLAIN"


def _recommended(properties: Mapping[str, Any], name: str, why: str) -> SettingAdvice:
    documented = limits.CLIENT_SETTINGS[name]
    text = f"{ended(why)} Event Hubs recommends {documented.recommended}"
    if documented.permitted:
        text += f" and permits {documented.permitted}"
    return _advice(properties, name, text, limits.CLIENT_SETTINGS_SOURCE)


def _advice(properties: Mapping[str, Any], name: str, text: str, source: str) -> SettingAdvice:
    return SettingAdvice(name, shown(name, properties[name]), text, source)
