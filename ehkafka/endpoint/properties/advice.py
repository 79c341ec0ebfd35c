"""Tells of settings that are permitted but not wise: what the service recommends, or what exposes a key.

Pure: looks at values, refuses nothing (that is `setting_checks`' part) and changes nothing. Called once per
client with its final properties; our own defaults give no advice.
"""

from __future__ import annotations

from operator import gt, lt
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.endpoint.bootstrap import bootstrap_hosts, is_loopback
from ehkafka.endpoint.properties import limits
from ehkafka.endpoint.properties.names import shown
from ehkafka.endpoint.properties.setting_checks import UNCHECKED, is_false, whole_number
from ehkafka.events import SettingAdvice
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ehkafka.endpoint.endpoint import Endpoint


class _Rule(NamedTuple):
    """Advice against some values of one property."""

    name: str
    is_unwise: Callable[[Any], bool]
    text: str
    source: str = limits.CLIENT_SETTINGS_SOURCE


def _recommended(name: str, is_worse: Callable[[int, int], bool], why: str) -> _Rule:
    """Return the service's own recommendation, where a value `is_worse` than the one that it names."""
    documented = limits.CLIENT_SETTINGS[name]
    recommended, permitted = documented.recommended, documented.permitted
    text = f"{ended(why)} Event Hubs recommends {recommended}" + (
        f" and permits {permitted}" if permitted else ""
    )
    return _Rule(name, lambda value: is_worse(value, int(recommended or 0)), text)


_CUT = f"Azure drops connections that were idle for {limits.IDLE_CONNECTION_S_MAX} s"
_IDLE = (
    _recommended("metadata.max.age.ms", gt, _CUT),
    _recommended("connections.max.idle.ms", gt, _CUT),
    _Rule("socket.keepalive.enable", is_false, f"{_CUT}. Event Hubs recommends true"),
)
_MEMBERSHIP = (
    _recommended("session.timeout.ms", lt, "A short silence of a member already moves its partitions"),
    # Only where three of the recommended length would fit: a short session needs a quicker heart.
    _recommended("heartbeat.interval.ms", gt, "A dead member is noticed later"),
    _recommended("max.poll.interval.ms", lt, "A rebalance waits for a member for up to this time"),
    _Rule(
        "partition.assignment.strategy",
        lambda names: "cooperative" in str(names),
        "Event Hubs documents no support for cooperative rebalances. Try it on your namespace, or leave"
        " App(assignor=…) at 'default'",
        "no statement found in the Event Hubs docs",
    ),
)
_PLAIN_TIME = _recommended("request.timeout.ms", lt, "The service itself may take 20 s")
_LEAST_MS = limits.IDEMPOTENT_REQUEST_TIMEOUT_MS_MIN
_IDEMPOTENT_TIME = _Rule(
    "request.timeout.ms",
    lambda ms: ms < _LEAST_MS,
    f"Event Hubs requires {_LEAST_MS} or more for an idempotent producer (ehkafka uses one); otherwise "
    f"Event Hubs may forget the producer's ID. Set {_LEAST_MS}, or leave request.timeout.ms out",
)
_BELOW = limits.PRODUCE_REQUEST_BYTES_BELOW
_PRODUCED = (
    _Rule(
        "compression.type",
        lambda name: str(name).strip().lower() == "gzip",
        "Event Hubs supports gzip in the Premium and Dedicated tiers only. On Standard, leave this property"
        " out",
        limits.OVERVIEW_SOURCE,
    ),
    _Rule(
        "message.max.bytes",
        lambda size: whole_number("message.max.bytes", size) >= _BELOW,
        f"Event Hubs closes the connection on a produce request of {_BELOW} bytes or more, unless the"
        f" namespace is a Dedicated one with large messages. Set less than {_BELOW}",
    ),
)


def consumer_advice(endpoint: Endpoint, properties: Mapping[str, Any]) -> list[SettingAdvice]:
    """Return what is advised against in a consumer's final properties."""
    session_ms, fitting = properties["session.timeout.ms"], limits.HEARTBEATS_PER_SESSION_RECOMMENDED
    heartbeats = _Rule(
        "heartbeat.interval.ms",
        lambda ms: fitting * ms > session_ms,
        f"{fitting} heartbeats should fit into session.timeout.ms={session_ms}, or one lost heartbeat may "
        f"end the membership in the group. Set {session_ms // fitting} or less",
        limits.KAFKA_CONSUMER_SOURCE,
    )
    on_event_hubs = (*_MEMBERSHIP, *_IDLE) if endpoint.is_event_hubs else ()
    return [*_against(properties, (heartbeats, *on_event_hubs)), *_security(endpoint, properties)]


def producer_advice(endpoint: Endpoint, properties: Mapping[str, object]) -> list[SettingAdvice]:
    """Return what is advised against in a producer's final properties."""
    is_plain = is_false(properties.get("enable.idempotence", False))
    on_event_hubs = (*_IDLE, _PLAIN_TIME if is_plain else _IDEMPOTENT_TIME, *_PRODUCED)
    rules = on_event_hubs if endpoint.is_event_hubs else ()
    return [*_against(properties, rules), *_security(endpoint, properties)]


def _against(properties: Mapping[str, object], rules: Iterable[_Rule]) -> Iterator[SettingAdvice]:
    for name, is_unwise, text, source in rules:
        if name in properties and is_unwise(properties[name]):
            yield SettingAdvice(name, shown(name, properties[name]), text, source)


def _security(endpoint: Endpoint, properties: Mapping[str, Any]) -> Iterator[SettingAdvice]:
    if all(map(is_loopback, bootstrap_hosts(properties["bootstrap.servers"]))):
        return
    protocol = str(properties.get("security.protocol", "plaintext")).lower()
    is_password = str(properties.get("sasl.mechanisms", "")).strip().upper() == "PLAIN"
    if "ssl" in protocol:
        yield from _against(properties, _UNCHECKED)
    elif endpoint.kind == "event-hubs":
        yield SettingAdvice(
            "security.protocol",
            protocol,
            "Event Hubs accepts only TLS connections. Set SASL_SSL and the namespace's credentials, or use"
            " Endpoint.connection_string(…)",
            limits.CLIENT_SETTINGS_SOURCE,
        )
    elif protocol == "sasl_plaintext" and is_password and endpoint.kind == "kafka":
        yield from _against(properties, (_UNENCRYPTED,))


_UNCHECKED = tuple(
    _Rule(
        name,
        is_off,
        "the broker's certificate is not checked: a machine on the route can read the access key and the"
        " records. Leave this property out, and name your own authority in ssl.ca.location",
        limits.LIBRDKAFKA_SOURCE,
    )
    for name, is_off in UNCHECKED.items()
)
_UNENCRYPTED = _Rule(
    "security.protocol",
    lambda _protocol: True,
    "the password crosses the network unencrypted. Use SASL_SSL",
    limits.LIBRDKAFKA_SOURCE,
)
