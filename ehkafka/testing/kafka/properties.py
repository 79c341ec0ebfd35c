"""The configuration files of a one-node Kafka broker: listeners, JAAS, server.properties, log4j2.

Pure text: nothing here starts, binds or writes. A listener offers one way in (plain, SASL, TLS) under
a name; the properties make a broker as small as one test needs and as strict as Event Hubs documents.
Called by `KafkaBroker`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HOST: Final = "127.0.0.1"
PLAINTEXT: Final = "plaintext"
CONTROLLER: Final = "controller"
JAAS_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

# Event Hubs documents 1024 bytes for the metadata of a commit; Apache Kafka's default is 4096.
COMMIT_METADATA_BYTES_MAX: Final = 1024

ONE_NODE: Final[dict[str, str | int]] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    # Internal topics with one partition: their defaults of 50 cost seconds of start-up.
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    # A killed broker is let in again when its old session is over: the defaults make that 12 s, these 4.
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 500,
    # The controller's log otherwise grows by two entries a second, each written, fetched and applied: most of
    # what an idle broker burns, and only metrics look at them.
    "metadata.max.idle.interval.ms": 0,
    # The default takes 128 MB of the heap, and takes them again when the cleaner is given other properties.
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offset.metadata.max.bytes": COMMIT_METADATA_BYTES_MAX,
}


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A certificate for the broker, its private key in PKCS#8, and the CA that clients trust; PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    ca_pem: bytes = b""


@dataclass(frozen=True, slots=True)
class Listener:
    """One way into the broker.

    `users` enables SASL PLAIN (name → password; Event Hubs' name is `$ConnectionString` and the
    password the whole connection string), `unsecured_tokens` enables OAUTHBEARER with JWTs of
    `"alg": "none"`, and `identity` turns TLS on. `reauthenticate_s` bounds the life of a SASL session
    on one connection. `port` 0 takes a free one. `advertised_port` is what clients get instead of
    the listener's own: that of a proxy before it, on the same host.
    """

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    unsecured_tokens: bool = False
    identity: ServerIdentity | None = None
    reauthenticate_s: float | None = None
    port: int = 0
    advertised_port: int | None = None

    def __post_init__(self) -> None:
        """Refuse what JAAS cannot spell."""
        for user in self.users:
            if not re.fullmatch(r"[\w.@$-]+", user):
                message = (
                    f"The user name {user!r} has characters that a JAAS option cannot carry; "
                    "use letters, digits, and _ . @ $ -"
                )
                raise ConfigurationError(message)
        if self.reauthenticate_s is not None and not self.mechanisms:
            message = "reauthenticate_s needs SASL: give the listener users or unsecured_tokens"
            raise ConfigurationError(message)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that this listener offers."""
        plain = ("PLAIN",) if self.users else ()
        return (*plain, "OAUTHBEARER") if self.unsecured_tokens else plain

    @property
    def protocol(self) -> str:
        """Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        transport = "SSL" if self.identity else "PLAINTEXT"
        return f"SASL_{transport}" if self.mechanisms else transport


def server_properties(
    *,
    data_directory: Path,
    listeners: Mapping[str, Listener],
    ports: Mapping[str, int],
    keystores: Mapping[str, Path],
    overrides: Mapping[str, str | int],
) -> str:
    """Return the text of server.properties.

    `listeners` has every client listener including the plaintext one, `ports` one port for each and
    for the controller, `keystores` a PEM file for each listener with TLS. `overrides` win.
    """
    names = [*listeners, CONTROLLER]
    protocols = {name: listener.protocol for name, listener in listeners.items()} | {CONTROLLER: "PLAINTEXT"}
    properties = ONE_NODE | {
        "log.dirs": str(data_directory),
        "controller.quorum.voters": f"1@{HOST}:{ports[CONTROLLER]}",
        "controller.listener.names": CONTROLLER.upper(),
        "inter.broker.listener.name": PLAINTEXT.upper(),
        "listeners": ",".join(f"{name.upper()}://{HOST}:{ports[name]}" for name in names),
        "advertised.listeners": ",".join(
            f"{name.upper()}://{HOST}:{listener.advertised_port or ports[name]}"
            for name, listener in listeners.items()
        ),
        "listener.security.protocol.map": ",".join(f"{name.upper()}:{protocols[name]}" for name in names),
    }
    for name, listener in listeners.items():
        properties |= _listener_properties(f"listener.name.{name}", listener, keystores.get(name))
    return "".join(_line(key, value) for key, value in (properties | dict(overrides)).items())


def _listener_properties(prefix: str, listener: Listener, keystore: Path | None) -> dict[str, str | int]:
    properties: dict[str, str | int] = {}
    if listener.mechanisms:
        properties[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
    if listener.users:
        accounts = (f"user_{user}={_quote(password)}" for user, password in listener.users.items())
        properties[f"{prefix}.plain.sasl.jaas.config"] = f"{JAAS_PLAIN} required {' '.join(accounts)};"
    if listener.unsecured_tokens:
        # The broker logs in as well before it accepts tokens; this is the name it gives itself.
        claim = 'unsecuredLoginStringClaim_sub="broker"'
        properties[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{JAAS_OAUTH} required {claim};"
    if listener.reauthenticate_s is not None:
        for mechanism in listener.mechanisms:
            key = f"{prefix}.{mechanism.lower()}.connections.max.reauth.ms"
            properties[key] = round(listener.reauthenticate_s * 1000)
    if keystore is not None:
        properties |= {f"{prefix}.ssl.keystore.type": "PEM", f"{prefix}.ssl.keystore.location": str(keystore)}
    return properties


def _quote(value: str) -> str:
    """Quote a JAAS option's value, which Kafka reads with backslash escapes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _line(key: str, value: str | int) -> str:
    """Write one line of a Java properties file: backslash escapes, and ASCII only."""
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    # Java reads UTF-16 units, so a character beyond the first plane is written as two escapes.
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    escaped = "".join(chr(unit) if unit < 0x7F else rf"\u{unit:04x}" for unit in pairs)
    return f"{key}={escaped}\n"


LOG4J2_XML: Final = """\
<Configuration status="WARN">
  <Appenders>
    <Console name="console"><PatternLayout pattern="%d{ISO8601} %p %c{1}: %m%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="INFO"><AppenderRef ref="console"/></Root>
  </Loggers>
</Configuration>
"""
