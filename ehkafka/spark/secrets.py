"""The way to the broker, named and never given: what is pickled says where a secret is, not what it is.

A `NamedEndpoint` travels to executors inside readers; each process makes its `Endpoint` out of its own
environment, files and modules, once. Options that hold a secret are refused with the name of the option
that takes its place, and never repeated: Spark shows options in plans, event logs and its web page.
Read on the driver (options) and in workers (endpoints), one thread each.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.properties.known_names import KNOWN
from ehkafka.endpoint.properties.names import is_secret
from ehkafka.errors import ConfigurationError, EhkafkaError, describe
from ehkafka.spark.shipped import import_shipped
from ehkafka.wording import ended
from ehkafka.wording.calling import close_to

if TYPE_CHECKING:
    from collections.abc import Mapping

Way = Literal["bootstrap", "connectionStringEnv", "connectionStringFile", "namespace", "endpointFactory"]

WAYS: tuple[Way, ...] = (
    "connectionStringEnv",
    "connectionStringFile",
    "namespace",
    "endpointFactory",
    "bootstrap",
)
"""Options of which one says how the broker is reached; `bootstrap` may be given with the others."""

ADDITIONS = ("credential", "credentialFactory", "clientId")
"""Options that belong to `namespace`."""

CLIENT_PREFIX = "kafka."

OWN_GROUP = "ehkafka-spark"
"""The name of our clients on Spark, and the group of one without `groupId`, which is never joined nor
committed to: a consumer needs one."""

_INSTEAD = (
    "Name the secret instead of giving it: connectionStringEnv (a variable), connectionStringFile (a path),"
    " credentialFactory (module:function, called where it is needed) and other options with these endings."
)
# What only ever stands in a secret's text.
_SIGNS_OF_SECRET = (
    "sharedaccess",
    "password=",
    "accountkey=",
    "accesskey=",
    "apikey=",
    "client_secret=",
    "sig=",
    "private key-----",
)
# A password in a URL, a signed token, a key of a storage account or of a namespace.
_SHAPES_OF_SECRET = re.compile(
    r"://[^/\s@]*:[^/\s@]+@|\beyJ[\w-]{8,}\.[\w-]{8,}\.|^(?:[A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}=)$"
)
_SECRET_WORDS = ("password", "passphrase", "secret", "token", "connectionstring", "signature")
_SECRET_NAMES = ("key", "sas", "credentials", "accountkey", "accesskey", "sharedaccesskey", "apikey")
# Properties that load a library or run a command on every executor.
_OF_CODE = frozenset(
    {
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.id",
        "ssl.engine.location",
        "ssl.providers",
    }
)
# Names of the Java client → librdkafka's; None where there is nothing to set.
_JAVA_NAMES: Mapping[str, str | None] = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "max.poll.records": None,
    "default.api.timeout.ms": None,
    "max.request.size": "message.max.bytes",
    "max.block.ms": None,
    "partitioner.class": "partitioner",
    "key.deserializer": None,
    "value.deserializer": None,
    "key.serializer": None,
    "value.serializer": None,
    "interceptor.classes": None,
    "sasl.login.callback.handler.class": None,
    "sasl.client.callback.handler.class": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedEndpoint:
    """How to make an `Endpoint`. Holds no secret; hashable, picklable, shown in plans."""

    way: Way
    value: str
    credential: str | None = None
    credential_factory: str | None = None
    client_id: str | None = None
    # librdkafka's properties, none of them secret.
    properties: tuple[tuple[str, str], ...] = ()

    def endpoint(self) -> Endpoint:
        """Return this process's endpoint, made at the first call.

        Raises `ConfigurationError` that names the option and what is missing here.
        """
        key = (os.getpid(), self)
        if key not in _ENDPOINTS:
            _ENDPOINTS[key] = self._made()
        return _ENDPOINTS[key]

    def _made(self) -> Endpoint:
        properties = dict(self.properties)
        match self.way:
            case "bootstrap":
                return Endpoint.kafka(self.value, properties)
            case "connectionStringEnv":
                return Endpoint.connection_string(variable(self.way, self.value), properties=properties)
            case "connectionStringFile":
                return Endpoint.connection_string(Path(self.value), properties=properties)
            case "namespace":
                factory = self.credential_factory
                credential = called("credentialFactory", factory) if factory else self.credential
                return Endpoint.entra(self.value, credential, client_id=self.client_id, properties=properties)
            case "endpointFactory":
                return self._from_factory()

    def _from_factory(self) -> Endpoint:
        if self.properties:
            raise ConfigurationError(
                f"Options {CLIENT_PREFIX}… do not work with endpointFactory: set the properties in the "
                f"function that makes the endpoint."
            )
        made = called("endpointFactory", self.value)
        if not isinstance(made, Endpoint):
            raise ConfigurationError(
                f"Option endpointFactory: {self.value} returned a value of type {type(made).__name__}: "
                f"return an ehkafka.Endpoint."
            )
        return made


# Endpoints of this process; a forked child makes its own, because librdkafka and tokens need threads.
_ENDPOINTS: dict[tuple[int, NamedEndpoint], Endpoint] = {}


def named_endpoint(options: Mapping[str, str]) -> NamedEndpoint:
    """Return the way that the options name; `options` has the names as in `WAYS` and `kafka.…`.

    Raises `ConfigurationError` that names options, never their values.
    """
    properties = _properties(options)
    bootstrap = options.get("bootstrap") or properties.pop("bootstrap.servers", None)
    given: list[Way] = [way for way in WAYS[:-1] if way in options]
    if len(given) > 1:
        raise ConfigurationError(
            f"Options {' and '.join(given)} both name the broker: keep only one of them."
        )
    way: Way = given[0] if given else "bootstrap"
    for name in ADDITIONS:
        if name in options and way != "namespace":
            raise ConfigurationError(
                f"Option {name} works only with the option namespace: add namespace, or leave {name} out."
            )
    if not (given or bootstrap):
        raise ConfigurationError(
            "No option names the broker: give one of connectionStringEnv, connectionStringFile,"
            " namespace (Entra ID), endpointFactory or kafka.bootstrap.servers."
        )
    if "credential" in options and "credentialFactory" in options:
        raise ConfigurationError(
            "Options credential and credentialFactory exclude each other: keep only one of them."
        )
    if given and bootstrap:
        properties["bootstrap.servers"] = bootstrap
    return NamedEndpoint(
        way=way,
        value=options[way] if given else str(bootstrap),
        credential=options.get("credential"),
        credential_factory=options.get("credentialFactory"),
        client_id=options.get("clientId"),
        properties=tuple(sorted(properties.items())),
    )


def refuse_secrets(options: Mapping[str, str]) -> None:
    """Refuse options that give a secret, by name or by what they hold. The value is not repeated."""
    for name, value in options.items():
        lower = name.lower()
        is_named_so = _is_secret_name(lower)
        if lower.startswith(CLIENT_PREFIX):
            is_named_so = is_secret(lower.removeprefix(CLIENT_PREFIX), value)
        looks_so = any(sign in value.lower() for sign in _SIGNS_OF_SECRET)
        if is_named_so or looks_so or _SHAPES_OF_SECRET.search(value.strip()) is not None:
            raise ConfigurationError(
                f"Option {name} contains a secret, but Spark shows options in plans and logs. {_INSTEAD}"
            )


def _is_secret_name(name: str) -> bool:
    """Tell whether an option with this name holds a secret, and not the place of one."""
    bare = re.sub(r"[^a-z0-9]", "", name)
    if bare.endswith(("env", "file", "factory")):
        return False
    return bare in _SECRET_NAMES or any(word in bare for word in _SECRET_WORDS)


def called(option: str, path: str) -> Any:
    """Return what the function at `module:function` returns. Raises `ConfigurationError` by the option."""
    module_name, _, function_name = path.partition(":")
    if not module_name or not function_name:
        raise ConfigurationError(
            f"Option {option}: {path!r} does not name a function: give package.module:function."
        )
    try:
        function = getattr(import_shipped(module_name), function_name)
    except ImportError as error:
        raise ConfigurationError(
            f"Option {option}: {module_name} cannot be imported in process {os.getpid()} ({describe(error)})."
            " Every executor needs this module: ship it with --py-files, or install it on the executors."
        ) from None
    except AttributeError:
        raise ConfigurationError(f"Option {option}: {module_name} has no {function_name}.") from None
    try:
        return function()
    except EhkafkaError:
        raise
    except Exception as error:
        # Neither its text nor itself as the cause: a factory's error may hold what it read.
        kind = type(error).__name__
    raise ConfigurationError(
        f"Option {option}: the function {path} raised {kind}. Call it in a program of "
        f"your own to see the cause."
    )


def variable(option: str, name: str) -> str:
    """Return what a variable of this process holds. Raises `ConfigurationError` by the option."""
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigurationError(
            f"Option {option}: the variable {name} is not set in this process. Before the Spark session "
            f"begins, set the variable on the driver's machine and on every executor's, with the cluster's "
            f"way to distribute secrets. Do not put it into Spark's configuration, which the event log shows."
        )
    return value


def _properties(options: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for option, value in options.items():
        if not option.startswith(CLIENT_PREFIX):
            continue
        name = option.removeprefix(CLIENT_PREFIX)
        if name in _JAVA_NAMES:
            ours = _JAVA_NAMES[name]
            fix = f"write {CLIENT_PREFIX}{ours}" if ours else "leave it out"
            raise ConfigurationError(
                f"Option {option} is one of the Java client, but ehkafka uses librdkafka: {ended(fix)}"
            )
        if name in _OF_CODE:
            raise ConfigurationError(
                f"Option {option} loads code, or runs a command, on every executor. Set {name} in an"
                " endpointFactory (module:function), which is your own code."
            )
        if name not in KNOWN:
            close = close_to(name, KNOWN)
            meant = f" (did you mean {close}?)" if close else ""
            raise ConfigurationError(
                f"Option {option} is no property of librdkafka that ehkafka knows{meant}. It may be a"
                " secret, and Spark shows options in plans and logs. Correct its name, or set it in an"
                f" endpointFactory. {_INSTEAD}"
            )
        found[name] = value
    return found
