"""Refuses client settings that would break a promise of ours or a documented limit of the service.

Pure: looks at values, never changes them. Each refusal names the property, its value, who owns or limits
it, why, and what to do instead. Called by `properties` while a client is being prepared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.bootstrap import bootstrap_hosts, hosts_in, is_event_hubs_host, is_loopback
from ehkafka.endpoint.keys.connection_string import USERNAME
from ehkafka.endpoint.properties import limits
from ehkafka.endpoint.properties.names import shown
from ehkafka.endpoint.text import is_utf_8
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

# librdkafka's numbers have 32 bits; any more is refused there.
_NUMBER_BELOW = 1 << 63
_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})
_INSTANCE_ID = re.compile(r"[A-Za-z0-9._-]{1,249}")
UNCHECKED: Mapping[str, Callable[[object], bool]] = {
    "enable.ssl.certificate.verification": lambda value: _as_text(value) == "false",
    "ssl.endpoint.identification.algorithm": lambda value: _as_text(value) == "none",
}
"""Properties with which a broker's certificate is not checked, or not for its host → whether they say so."""

ADDRESSES = ("bootstrap.servers", "metadata.broker.list")
"""librdkafka's two names of the brokers' addresses; of two that differ the last one set counts."""

_CONNECTION = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "oauth_cb",
)


@dataclass(frozen=True, slots=True)
class Owned:
    """A property that only the engine sets: `value` is ours, any other is refused.

    `is_exact` is for names given by the user; librdkafka's own words and flags have several spellings.
    """

    name: str
    value: Any
    reason: str
    fix: str
    is_exact: bool = False

    def allows(self, value: object) -> bool:
        """Say whether the value means what ours means."""
        if self.is_exact:
            return bool(value == self.value)
        return _as_text(value) == _as_text(self.value)


def invalid(name: str, value: object, reason: str, fix: str) -> ConfigurationError:
    """Return the error for one property; the value is shown unless it may be a secret."""
    return ConfigurationError(f"{name}={shown(name, value)} is refused: {ended(reason)} {ended(fix)}")


def check_owned(asked: Mapping[str, object], owned: Iterable[Owned]) -> None:
    """Refuse another value than ours for what the engine owns; an equal one passes."""
    for rule in owned:
        if rule.name in asked and not rule.allows(asked[rule.name]):
            raise invalid(rule.name, asked[rule.name], rule.reason, rule.fix)


def check_callbacks(asked: Mapping[str, object], callbacks: Collection[str]) -> None:
    """Refuse callbacks through which the engine itself follows the group."""
    for name in callbacks:
        if name in asked:
            raise ConfigurationError(
                f"{name} is refused, because ehkafka uses it itself to follow assignments and commits. Use "
                f"the app's hooks on_assigned, on_revoked and on_lost."
            )


def check_connection(endpoint: Mapping[str, object], overrides: Mapping[str, object]) -> None:
    """Refuse to bend where the endpoint points, or who it says we are, from the app's properties."""
    # An endpoint with a token of its own would lose it to another way of getting one.
    for name in overrides:
        if "oauth_cb" in endpoint and name.startswith("sasl.oauthbearer."):
            raise invalid(
                name, overrides[name], "the endpoint's credential gives the token", f"Leave {name} out"
            )
    for name in _CONNECTION:
        if name in overrides and name in endpoint and not _same(name, endpoint[name], overrides[name]):
            raise invalid(
                name,
                overrides[name],
                "the endpoint sets another value",
                "Set this property only in the Endpoint, whose functions take properties=",
            )


def check_trust(properties: Mapping[str, object], *, kind: str | None) -> None:
    """Refuse to send a namespace's key or token unless the broker's certificate is checked.

    `kind` is the endpoint's, None for a program's own properties, in whatever spelling librdkafka takes. A
    namespace under another name is known by its user. On this machine anything goes, for a tunnel or a proxy
    has a certificate of its own; so does the emulator, wherever it runs.
    """
    hosts = [host for name in ADDRESSES if properties.get(name) for host in hosts_in(properties[name])]
    is_namespace = kind == "event-hubs" or any(map(is_event_hubs_host, hosts))
    is_by_key = kind != "emulator" and str(properties.get("sasl.username")) == USERNAME
    if not (is_namespace or is_by_key) or (hosts and all(map(is_loopback, hosts))):
        return
    if "ssl" not in str(properties.get("security.protocol", "sasl_ssl")).strip().lower():
        return
    for name, is_off in UNCHECKED.items():
        if name in properties and is_off(properties[name]):
            raise invalid(
                name,
                properties[name],
                "a machine between this one and the broker could read the access key or token of your "
                "namespace, and every record",
                "Leave this property out. If a proxy has a certificate of your own authority, set "
                "ssl.ca.location",
            )


def check_group(group: object, *, is_event_hubs: bool) -> None:
    """Refuse a group that is missing, malformed or longer than the service takes."""
    most_bytes, most = limits.KAFKA_TEXT_BYTES_MAX, limits.GROUP_NAME_CHARACTERS_MAX
    if not isinstance(group, str) or not group.strip():
        reason, fix = "the group is missing", "Give the app its consumer group: App(group=…)"
    elif not is_utf_8(group):
        reason, fix = "it is not UTF-8", "Correct the name"
    elif group != group.strip() or not group.isprintable():
        reason, fix = "it begins or ends with a space, or contains a control character", "Correct the name"
    elif (size_bytes := len(group.encode())) > most_bytes:
        reason = f"it has {size_bytes} bytes, but Kafka's protocol allows {most_bytes}"
        fix = "Choose a shorter name"
    elif "sharedaccesskey" in group.lower():
        reason, fix = "it contains a connection string", "Give the name of the group"
    elif is_event_hubs and len(group) > most:
        reason = f"it has {len(group)} characters, but Event Hubs allows {most} ({limits.QUOTAS_SOURCE})"
        fix = "Choose a shorter name"
    else:
        return
    raise invalid("group.id", group, reason, fix)


def check_instance_id(instance_id: object) -> None:
    """Refuse an instance id that a broker would refuse without saying why."""
    if not isinstance(instance_id, str) or _INSTANCE_ID.fullmatch(instance_id) is None:
        raise invalid(
            "group.instance.id",
            instance_id,
            "brokers allow 1 to 249 letters, digits, dots, dashes and underscores (Apache Kafka, rule for "
            "group instance IDs)",
            "Choose a name that this process keeps after a restart, such as the name of its pod",
        )


def check_timings(properties: Mapping[str, Any], *, is_event_hubs: bool) -> None:
    """Refuse group timings that contradict one another or the service. Wants whole numbers."""
    session_ms, heartbeat_ms = properties["session.timeout.ms"], properties["heartbeat.interval.ms"]
    if is_event_hubs:
        _check_within(
            properties,
            "session.timeout.ms",
            range(limits.SESSION_TIMEOUT_MS_MIN, limits.SESSION_TIMEOUT_MS_MAX + 1),
            f"Event Hubs allows {{}} to {{}} ms ({limits.CLIENT_SETTINGS_SOURCE})",
            "Leave it out: ehkafka sets 30000",
        )
    if 2 * heartbeat_ms > session_ms:
        raise invalid(
            "heartbeat.interval.ms",
            heartbeat_ms,
            f"two heartbeats must fit into session.timeout.ms={session_ms}, or one late heartbeat ends the "
            f"membership in the group ({limits.KAFKA_CONSUMER_SOURCE})",
            f"Set heartbeat.interval.ms to {max(1, session_ms // 3)} or less, or raise session.timeout.ms",
        )
    if properties["max.poll.interval.ms"] <= session_ms:
        raise invalid(
            "max.poll.interval.ms",
            properties["max.poll.interval.ms"],
            f"it must be above session.timeout.ms={session_ms} ({limits.CLIENT_SETTINGS_SOURCE};"
            f" {limits.LIBRDKAFKA_SOURCE})",
            "Raise max.poll.interval.ms, or lower session.timeout.ms",
        )


def check_metadata_age(properties: Mapping[str, object]) -> None:
    """Refuse an age of metadata above what librdkafka can count, given or as it follows from the refresh."""
    most, times = limits.METADATA_MAX_AGE_MS_MOST, limits.METADATA_REFRESHES_PER_AGE
    age, refresh = "metadata.max.age.ms", "topic.metadata.refresh.interval.ms"
    reason = f"with {age} above {most}, librdkafka would ask the broker for metadata every second"
    if age in properties:
        if whole_number(age, properties[age]) > most:
            raise invalid(age, properties[age], reason, f"Set {age} to {most} ms or less")
    elif refresh in properties and times * whole_number(refresh, properties[refresh]) > most:
        why = f"librdkafka makes {age} {times} times as long, and {reason}"
        raise invalid(refresh, properties[refresh], why, f"Set {age}, too, to {most} ms or less")


def check_idle_times(properties: Mapping[str, object]) -> None:
    """Refuse, for Event Hubs, ages at which Azure has already dropped the connection."""
    reason = f"Event Hubs needs {{}} to {{}} ({limits.CLIENT_SETTINGS_SOURCE}): Azure drops TCP connections"
    for name, below in (
        ("metadata.max.age.ms", limits.METADATA_MAX_AGE_MS_BELOW),
        ("connections.max.idle.ms", limits.CONNECTIONS_MAX_IDLE_MS_BELOW),
    ):
        # 0 means never to librdkafka.
        why = f"{reason} that were idle for 240 s"
        _check_within(properties, name, range(1, below), why, "Leave it out: ehkafka sets 180000")


def check_produce(properties: Mapping[str, Any]) -> None:
    """Refuse, for Event Hubs, what the service does not take from a producer."""
    compression = str(properties.get("compression.type", "none")).lower()
    if compression not in limits.COMPRESSION_TYPES:
        raise invalid(
            "compression.type",
            compression,
            f"Event Hubs supports only none, and gzip in the Premium and Dedicated tiers "
            f"({limits.OVERVIEW_SOURCE})",
            "Leave it out, or use gzip in the Premium or Dedicated tier",
        )
    timeout_ms = properties["request.timeout.ms"]
    if timeout_ms <= limits.REQUEST_TIMEOUT_MS_ABOVE:
        raise invalid(
            "request.timeout.ms",
            timeout_ms,
            f"Event Hubs needs more than {limits.REQUEST_TIMEOUT_MS_ABOVE} ({limits.CLIENT_SETTINGS_SOURCE})",
            "Leave it out: ehkafka sets 60000",
        )
    size_bytes = whole_number("message.max.bytes", properties.get("message.max.bytes", 0))
    if size_bytes > limits.DEDICATED_EVENT_BYTES_MAX:
        raise invalid(
            "message.max.bytes",
            size_bytes,
            f"Event Hubs allows at most {limits.DEDICATED_EVENT_BYTES_MAX} bytes on a Dedicated cluster, "
            f"and less than {limits.PRODUCE_REQUEST_BYTES_BELOW} bytes in other tiers "
            f"({limits.QUOTAS_SOURCE})",
            "Leave it out: librdkafka sets 1000000",
        )


def check_protocol(properties: Mapping[str, Any], *, is_emulator: bool) -> None:
    """Refuse, for a namespace, an encryption that it does not speak; a tunnel on this machine may.

    Nothing said is librdkafka's plain text, which connects nowhere; that is `advice`'s to tell.
    """
    protocol = str(properties.get("security.protocol", "sasl_ssl")).strip()
    if protocol.lower() == "sasl_ssl" or is_emulator:
        return
    if not all(map(is_loopback, bootstrap_hosts(properties["bootstrap.servers"]))):
        raise invalid(
            "security.protocol",
            protocol,
            f"Event Hubs allows only SASL_SSL ({limits.CLIENT_SETTINGS_SOURCE})",
            "Set SASL_SSL, or describe the namespace with Endpoint.connection_string(…)",
        )


def whole_number(name: str, value: object) -> int:
    """Return the number behind an int, a float without fraction or text. Raises ConfigurationError."""
    try:
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _NUMBER_BELOW:
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, str):
            return int(value)
    except ValueError:
        # Falls through to the one error below.
        pass
    raise invalid(name, value, "it is not a whole number", "Give milliseconds or a count, such as 30000")


def is_true(value: object) -> bool:
    """Tell whether a flag's value, in any of librdkafka's spellings, is true."""
    return _as_text(value) == "true"


def is_false(value: object) -> bool:
    """Tell whether it is false."""
    return _as_text(value) == "false"


def _check_within(
    properties: Mapping[str, object], name: str, permitted: range, reason: str, fix: str
) -> None:
    """Refuse a number outside of what is permitted; `reason` has a place for both ends."""
    if properties[name] not in permitted:
        raise invalid(name, properties[name], reason.format(permitted[0], permitted[-1]), fix)


def _same(name: str, first: object, second: object) -> bool:
    if name in {"sasl.username", "sasl.password"}:
        return bool(first == second)
    if name == "bootstrap.servers":  # librdkafka passes over empty entries
        return _entries(first) == _entries(second)
    return _as_text(first) == _as_text(second)


def _entries(servers: object) -> list[str]:
    return [entry for entry in _as_text(servers).split(",") if entry]


def _as_text(value: object) -> str:
    text = str(value).strip().lower()
    if text in _TRUE:
        return "true"
    if text in _FALSE:
        return "false"
    return "".join(text.split())
