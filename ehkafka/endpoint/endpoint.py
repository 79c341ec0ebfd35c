"""`Endpoint`: an immutable description of one broker, with or without a secret in it.

Made by the user's code, shared by any number of apps and producers, read from any thread. It opens no
connection; only the embedded broker starts, on first use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from ehkafka.endpoint.bootstrap import bootstrap_hosts, is_embedded, is_event_hubs_host, is_loopback, listed
from ehkafka.endpoint.environment import ADDITIONS, chosen_way, missing_hint, read_variables
from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.endpoint.keys.rotation import RotatingCredential
from ehkafka.endpoint.keys.source import credential_source
from ehkafka.endpoint.properties.names import check_mapping, in_one_spelling
from ehkafka.endpoint.properties.setting_checks import check_trust
from ehkafka.endpoint.recipe import Recipe
from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import HiddenProperties, NeverPickled
from ehkafka.wording.calling import made_plainly, plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ehkafka.embedded.broker import EmbeddedBroker
    from ehkafka.embedded.shared import Loan, SharedBroker
    from ehkafka.endpoint.entra.entra import EntraConnection
    from ehkafka.endpoint.entra.token_source import TokenSource
    from ehkafka.endpoint.properties.names import Value

Kind = Literal["kafka", "event-hubs", "emulator", "embedded"]

# What every client of Event Hubs needs: Azure drops TCP connections that were idle for 240 s, and
# librdkafka's own guess at Azure misses the domain of the namespaces.
_EVENT_HUBS_PROPERTIES: Mapping[str, object] = {
    "socket.keepalive.enable": True,
    "metadata.max.age.ms": 180_000,
    "connections.max.idle.ms": 180_000,
}
_CREDENTIAL_PROPERTIES = ("sasl.mechanisms", "sasl.username", "sasl.password")


@made_plainly
@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Endpoint(NeverPickled):
    """How to reach a broker. Made by its class methods, never directly.

    Two endpoints are equal only if they are the same object. An endpoint cannot be pickled, because the
    pickle would contain its access key: make the endpoint in the process that uses it.
    """

    _never_pickled = (
        "an Endpoint is not pickled, because the pickle would carry its access key:"
        " make it in the process that uses it, from the environment or a file"
    )

    # The host, or `embedded`; safe for logs and pages.
    name: str
    # `kafka`, `event-hubs`, `emulator` or `embedded`: which limits and defaults apply.
    kind: Kind
    # The event hub that a hub-level connection string names; None elsewhere.
    default_topic: str | None = None
    # Inner: there when its key may change while clients run; `current()` returns it.
    credential: RotatingCredential | None = None
    # Inner: the Entra ID tokens of all clients, where the endpoint has a credential instead of a key.
    tokens: TokenSource | None = None
    # Asked again for every client, so that a credential may change between two of them.
    _connect: Callable[[], dict[str, Any]]
    _properties: Mapping[str, object]
    _broker: SharedBroker | None = None
    _entra: EntraConnection | None = None
    # What its factory was given, its secrets included: a member of a supervisor makes it again.
    _made_of: Recipe | None = None

    def __post_init__(self) -> None:
        """Refuse to leave a namespace's certificate unchecked. Raises `ConfigurationError`."""
        check_trust({"bootstrap.servers": self.name, **self._properties}, kind=self.kind)

    @classmethod
    @plainly
    def kafka(cls, bootstrap: str | Sequence[str], properties: Mapping[str, Value] | None = None) -> Self:
        """Describe any broker. For a host of Event Hubs, the checks and defaults of Event Hubs apply.

        - `bootstrap` (required): `host:port,…`, or a list of these.
        - `properties` (default `None`): librdkafka's properties for every client, such as
          `security.protocol`.

        Raises `ConfigurationError`.
        """
        servers: str = listed(bootstrap)
        hosts = bootstrap_hosts(servers)
        chosen = in_one_spelling(properties, "Endpoint.kafka")
        if chosen.setdefault("bootstrap.servers", servers) != servers:
            raise ConfigurationError(
                "Endpoint.kafka: bootstrap= and the property bootstrap.servers have different addresses: "
                "give only one of the two"
            )
        kind: Kind = "event-hubs" if any(map(is_event_hubs_host, hosts)) else "kafka"
        name = hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more"
        made_of = Recipe("kafka", {"bootstrap": servers, "properties": dict(chosen)})
        properties = HiddenProperties(chosen)
        return cls(name=name, kind=kind, _connect=dict, _properties=properties, _made_of=made_of)

    @classmethod
    @plainly
    def connection_string(
        cls,
        value: str | os.PathLike[str] | Callable[[], str],
        *,
        properties: Mapping[str, Value] | None = None,
    ) -> Self:
        """Describe an Event Hubs namespace, or its emulator, by a connection string with an access key.

        - `value` (required): the string, the `Path` of a file that contains only the string, or a callable
          that returns the string. ehkafka reads a file or callable at once, for each new client, and while an
          app runs (a file every second, a callable every 5 s, and soon after the broker refused the key). So
          a rotated key needs no restart. ehkafka calls the callable on its own threads, one call at a time;
          the callable may block or raise. If a read fails, the old key stays (event `CredentialUnusable`).
          Only the access key may change, not the namespace.
        - `properties` (default `None`): librdkafka's properties for every client, such as `ssl.ca.location`.
          A private endpoint needs no property: private DNS resolves the namespace's name to its address.

        Raises `ConfigurationError`, which never contains any part of the string.
        """
        source = credential_source(value)
        credential = None if source is None else RotatingCredential(source)
        parsed = credential.connection_string if credential is not None else ConnectionString.parse(value)
        chosen = in_one_spelling(properties, "Endpoint.connection_string")
        _refuse_to_bend_credentials(chosen, parsed)
        return cls(
            name=parsed.host,
            kind="emulator" if parsed.is_emulator else "event-hubs",
            default_topic=parsed.entity_path,
            credential=credential,
            _connect=(credential or parsed).client_properties,
            _properties=HiddenProperties(chosen),
            _made_of=Recipe("connection_string", {"value": value, "properties": dict(chosen)}),
        )

    @classmethod
    @plainly
    def entra(
        cls,
        namespace: str,
        credential: object = None,
        *,
        client_id: str | None = None,
        properties: Mapping[str, Value] | None = None,
    ) -> Self:
        """Describe an Event Hubs namespace to which clients connect with Entra ID, instead of an access key.

        The identity needs the role Azure Event Hubs Data Receiver; to produce, Data Sender. Tokens are only
        for this namespace. The first token is requested when the first client is opened.

        - `namespace` (required): the namespace's name (`home`) or host name, in any cloud of Azure.
        - `credential` (default `None`): an object of azure-identity, any object with `get_token(scope)`, or
          `"default"` (also None), `"managed_identity"`, `"workload_identity"`, `"service_principal"` (from
          the environment) or `"cli"`. `close()` closes a credential that you chose by name, not your object.
        - `client_id` (default `None`): the ID of a user-assigned identity. None: the system's identity.
        - `properties` (default `None`): librdkafka's properties for every client. To connect to another
          address, such as a proxy, set `bootstrap.servers`. A private endpoint needs no property: private DNS
          resolves the namespace's name to its address.

        Raises `ConfigurationError`.
        """
        from ehkafka.endpoint.entra.entra import EntraConnection  # noqa: PLC0415 - with it come all events

        entra = EntraConnection(namespace, credential, client_id, properties)
        return cls(
            name=entra.namespace.host,
            kind="event-hubs",
            tokens=entra.tokens,
            _connect=entra.client_properties,
            _properties=HiddenProperties(entra.properties),
            _entra=entra,
            _made_of=Recipe(
                "entra",
                {
                    "namespace": namespace,
                    "credential": credential,
                    "client_id": client_id,
                    "properties": None if properties is None else dict(properties),
                },
            ),
        )

    @classmethod
    @plainly
    def from_env(cls, environ: Mapping[str, str] | None = None, prefix: str = "EHKAFKA_") -> Self:
        """Describe the broker that the environment names, by exactly one of four variables.

        `EHKAFKA_CONNECTION_STRING`, `EHKAFKA_CONNECTION_STRING_FILE` (a path; a new key needs no restart),
        `EHKAFKA_NAMESPACE` (Entra ID; with `EHKAFKA_CREDENTIAL`, `EHKAFKA_CLIENT_ID`) or `EHKAFKA_BOOTSTRAP`.
        `EHKAFKA_PROPERTY_SSL_CA_LOCATION` sets librdkafka's `ssl.ca.location`, and so on. An empty variable
        counts as not set.

        - `environ` (default `None`): the variables. None: `os.environ`.
        - `prefix` (default `"EHKAFKA_"`): how the variables' names begin.

        Raises `ConfigurationError`, which never contains a value.
        """
        environ = os.environ if environ is None else environ
        check_mapping(environ, "Endpoint.from_env: the environment")
        if not isinstance(prefix, str):
            raise ConfigurationError(
                f"Endpoint.from_env: prefix is of type {type(prefix).__name__}: give the text with which "
                f"the variables begin, such as 'EHKAFKA_'."
            )
        variables = read_variables(environ, prefix)
        try:
            return cls.from_settings(
                variables.settings, properties=variables.properties, named=lambda key: prefix + key.upper()
            )
        except ConfigurationError as error:
            error.args = (f"{error}{missing_hint(environ, variables, prefix)}",)
            raise

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, str],
        *,
        properties: Mapping[str, Value] | None = None,
        named: Callable[[str], str] = str,
    ) -> Self:
        """Describe a broker by plain settings, for programs that read the settings from a file or a form.

        - `settings` (required): one of `connection_string`, `connection_string_file`, `namespace` (with
          `credential`, `client_id`) and `bootstrap`, as text.
        - `properties` (default `None`): librdkafka's properties for every client.
        - `named` (default `str`): returns what errors call a setting. By default its name.

        Raises `ConfigurationError`.
        """
        check_mapping(settings, "Endpoint.from_settings: the settings")
        way = chosen_way(settings, named)
        value = settings[way]
        if not isinstance(value, str):
            raise ConfigurationError(f"{named(way)} is of type {type(value).__name__}: give text.")
        try:
            match way:
                case "connection_string":
                    return cls.connection_string(value, properties=properties)
                case "connection_string_file":
                    return cls.connection_string(Path(value), properties=properties)
                case "namespace":
                    more = {key: settings.get(key) for key in ADDITIONS}
                    return cls.entra(value, **more, properties=properties)
                case "bootstrap":
                    return cls.kafka(value, properties)
        except ConfigurationError as error:
            error.args = (f"{named(way)}: {error}",)
            raise

    @classmethod
    @plainly
    def embedded(cls, topics: Mapping[str, int] | None = None, *, partitions: int = 16) -> Self:
        """Describe a broker inside this process, for tests and demos. The broker starts on first use.

        Several apps can share the endpoint; `close()` stops the broker for all of them.

        - `topics` (default `None`): the number of partitions by the topic's name, for topics that the broker
          creates at its start.
        - `partitions` (default `16`): the number of partitions of other topics that apps subscribe to.
        """
        from ehkafka.embedded.shared import SharedBroker  # noqa: PLC0415 - tests and demos only

        broker = SharedBroker({} if topics is None else topics, partitions)
        return cls(
            name="embedded",
            kind="embedded",
            _connect=broker.client_properties,
            _properties={},
            _broker=broker,
            _made_of=Recipe("embedded", {"topics": dict(topics or {}), "partitions": partitions}),
        )

    @classmethod
    def made_again(cls, recipe: Recipe) -> Self:
        """Inner: return an endpoint like the one whose `recipe` this is. Raises `ConfigurationError`."""
        made: Self = getattr(cls, recipe.factory)(**recipe.given)
        return made

    @property
    def is_event_hubs(self) -> bool:
        """Whether the service's documented limits apply (a namespace, or its emulator)."""
        return self.kind in {"event-hubs", "emulator"}

    @property
    def is_embedded(self) -> bool:
        """Inner: whether it leads to an embedded broker of this process, if only by its address."""
        at_one = self.kind == "kafka" and is_embedded(self.chosen("bootstrap.servers"))
        return at_one or self.kind == "embedded"

    @property
    def credential_name(self) -> str | None:
        """Inner: the Entra ID credential by its name; None for an object, and for other endpoints."""
        chosen = None if self._entra is None else self._entra.chosen_credential
        return None if chosen is None else chosen[0]

    def client_properties(self) -> dict[str, Any]:
        """Return the librdkafka properties of this endpoint's clients, including its secrets as plain text.

        Starts the embedded broker if it is not running.
        """
        service = _EVENT_HUBS_PROPERTIES if self.is_event_hubs else {}
        return {**service, **self._connect(), **self._properties}

    def chosen(self, name: str) -> Any:
        """Inner: return the value that a property was given, None without; asks and opens nothing."""
        return self._properties.get(name)

    def prepare_topics(self, topics: Iterable[str]) -> None:
        """Inner: create what is missing of these topics on an embedded broker; elsewhere do nothing.

        Raises `ConfigurationError` for what is not a topic's name.
        """
        if self._broker is not None:
            self._broker.prepare(topics)

    @property
    def embedded_broker(self) -> EmbeddedBroker | None:
        """The broker inside this process, started if it is not running; None for all other endpoints."""
        return None if self._broker is None else self._broker.broker

    @property
    def recipe(self) -> Recipe:
        """Inner: how another process makes an endpoint like this. It holds the secrets."""
        assert self._made_of is not None  # each factory gives one
        return self._made_of

    def lend_broker(self, topics: Iterable[str]) -> Loan | None:
        """Inner: start an embedded broker with these topics, for members elsewhere; else None."""
        return None if self._broker is None else self._broker.lend(topics)

    def borrow_broker(self, loan: Loan) -> None:
        """Inner: use the embedded broker of another process, and none of this one."""
        if self._broker is not None:
            self._broker.borrow(loan)

    def close(self) -> None:
        """Stop an embedded broker for all apps that share it; close a credential that was chosen by name."""
        if self._broker is not None:
            self._broker.close()
        if self._entra is not None:
            self._entra.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        topic = f" default_topic={self.default_topic!r}" if self.default_topic else ""
        return f"<Endpoint {self.kind} {self.name}{topic}>"


def _refuse_to_bend_credentials(chosen: Mapping[str, Any], parsed: ConnectionString) -> None:
    for name in _CREDENTIAL_PROPERTIES:
        if name in chosen:
            raise ConfigurationError(
                f"Endpoint.connection_string: the connection string already sets {name}: leave it out of "
                f"properties=, or describe the broker with Endpoint.kafka(…)"
            )
    hosts = bootstrap_hosts(chosen.get("bootstrap.servers", parsed.bootstrap))
    protocol = str(chosen.get("security.protocol", "SASL_SSL")).upper()
    if protocol != "SASL_SSL" and not parsed.is_emulator and not all(map(is_loopback, hosts)):
        raise ConfigurationError(
            "Endpoint.connection_string: security.protocol other than SASL_SSL would send the access key"
            " unencrypted. Leave security.protocol out. Another value is allowed only if every bootstrap "
            "server is this machine"
        )
