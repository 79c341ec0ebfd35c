"""An endpoint as options of Spark's own Kafka connector, for clusters that have its JAR.

Translates what both clients can do and refuses what the Java client needs a class of its own for. The
options carry the secret, because the connector has no other way; Spark keeps it out of plans, event logs and
checkpoints, and what is returned shows nothing. Called by the user's program on the driver; opens nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ehkafka.endpoint.entra.namespace import EntraNamespace
from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import HiddenProperties

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint

_SECURITY = "org.apache.kafka.common.security"
_OAUTH = f"{_SECURITY}.oauthbearer"
# As measured: an empty fetch waits 500 ms by default, and each batch reads to its end, so ends with one.
_FAST: Mapping[str, str] = {
    "fetch.max.wait.ms": "10",
    "max.poll.records": "10000",
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "receive.buffer.bytes": str(4 * 1024 * 1024),
}
# What the service documents for Java clients.
_EVENT_HUBS: Mapping[str, str] = {
    "metadata.max.age.ms": "180000",
    "connections.max.idle.ms": "180000",
    "request.timeout.ms": "60000",
    "session.timeout.ms": "30000",
}
# librdkafka's name → the Java client's, where the value is the same; first those with one name.
_SAME_NAME = """
    bootstrap.servers security.protocol client.id client.rack client.dns.lookup metadata.max.age.ms
    connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms socket.connection.setup.timeout.ms
    session.timeout.ms heartbeat.interval.ms fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes
    check.crcs isolation.level
"""
_SAME_VALUE: Mapping[str, str] = {name: name for name in _SAME_NAME.split()} | {
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
}
_PASSWORD_MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}
_USE_OURS = 'Use format("ehkafka") instead: it needs no JAR and takes every endpoint'
_PRINCIPAL = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")


def kafka_options(endpoint: Endpoint, *, shaded_prefix: str = "", fast: bool = True) -> Mapping[str, str]:
    """Return what `spark.readStream.format("kafka").options(**…)` needs to reach the endpoint.

    Add `subscribe` and `startingOffsets` to it. What is returned is a mapping that does not show its values.
    A key that is rotated needs new options, and so a restart of the query. With Kafka clients 4 a service
    principal needs `-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=<token URL>` among the Java options of
    driver and executors.

    - `endpoint` (required): of a connection string, a plain broker with a user's password or a certificate
      authority's file, or an Entra ID service principal with a secret (`credential="service_principal"`, from
      `AZURE_TENANT_ID`, `AZURE_CLIENT_ID`, `AZURE_CLIENT_SECRET`). Other identities need a Java class and are
      refused.
    - `shaded_prefix` (default `""`): what a managed platform puts before the names of Kafka's classes
      (`kafkashaded.` on Databricks).
    - `fast` (default `True`): whether settings are added that make short batches two to three times as fast.

    Raises `ConfigurationError`.
    """
    if shaded_prefix and not shaded_prefix.replace(".", "").isidentifier():
        raise ConfigurationError(
            "kafka_options: shaded_prefix must be the start of a class name, such as 'kafkashaded.'"
        )
    prefix = shaded_prefix and shaded_prefix.rstrip(".") + "."
    given = endpoint.client_properties()
    options: dict[str, str] = {}
    if fast:
        options |= _FAST
    if endpoint.is_event_hubs:
        options |= _EVENT_HUBS
    options |= {_SAME_VALUE[name]: _text(value) for name, value in given.items() if name in _SAME_VALUE}
    options |= _tls(given)
    if endpoint.tokens is not None:
        options |= _service_principal(endpoint, prefix)
    else:
        options |= _password(given, prefix)
    return HiddenProperties({f"kafka.{name}": value for name, value in options.items()})


def _password(given: Mapping[str, object], prefix: str) -> dict[str, str]:
    if "SASL" not in str(given.get("security.protocol", "")).upper():
        return {}
    mechanism = str(given.get("sasl.mechanisms", "")).upper()
    if mechanism not in _PASSWORD_MODULES:
        raise ConfigurationError(
            f"kafka_options: the endpoint signs in by {mechanism or 'no named mechanism'}, which the JVM "
            f"connector cannot do without a Java class. {_USE_OURS}"
        )
    module = f"{prefix}{_SECURITY}.{_PASSWORD_MODULES[mechanism]}"
    user, password = given.get("sasl.username", ""), given.get("sasl.password", "")
    return {"sasl.jaas.config": _jaas(module, username=user, password=password)}


def _service_principal(endpoint: Endpoint, prefix: str) -> dict[str, str]:
    chosen = endpoint.credential_name
    if chosen != "service_principal":
        raise ConfigurationError(
            "kafka_options: the JVM connector can sign in only as a service principal with a secret, but the "
            f"endpoint has {chosen or 'a credential object'}. {_USE_OURS}; or make the endpoint with "
            "credential='service_principal'"
        )
    missing = [name for name in _PRINCIPAL if not os.environ.get(name)]
    if missing:
        raise ConfigurationError(
            f"kafka_options: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set. The JVM "
            "connector signs in only with a client secret, not with a certificate or a federated identity. "
            f"{_USE_OURS}"
        )
    tenant, client_id, secret = (os.environ[name] for name in _PRINCIPAL)
    if not tenant.replace("-", "").replace(".", "").isalnum():
        raise ConfigurationError("kafka_options: AZURE_TENANT_ID is no tenant's ID or domain: correct it")
    namespace = EntraNamespace.parse(endpoint.name)
    module = f"{prefix}{_OAUTH}.OAuthBearerLoginModule"
    return {
        "sasl.login.callback.handler.class": f"{prefix}{_OAUTH}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": f"https://{namespace.authority}/{tenant}/oauth2/v2.0/token",
        "sasl.jaas.config": _jaas(module, clientId=client_id, clientSecret=secret, scope=namespace.scope),
    }


def _tls(given: Mapping[str, object]) -> dict[str, str]:
    """Translate the certificate authority's file; the rest of TLS has another form in Java."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name == "ssl.ca.location":
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(value)}
        elif name.startswith("ssl.") or name in {"enable.ssl.certificate.verification", "https.ca.location"}:
            raise ConfigurationError(
                f"kafka_options: the Java client has no equivalent of {name}. Set the Java client's own "
                f"options in Spark (kafka.ssl.…). {_USE_OURS}"
            )
    return found


def _jaas(module: str, **entries: object) -> str:
    return (
        f"{module} required " + " ".join(f"{name}={_quoted(value)}" for name, value in entries.items()) + ";"
    )


def _quoted(value: object) -> str:
    text = str(value)
    if not text.isprintable():
        raise ConfigurationError(
            "kafka_options: the user name or the secret has a control character: remove that character"
        )
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
