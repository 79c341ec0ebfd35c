"""The options by which executors find the broker that an app's endpoint leads to. No secret is among them.

On the driver, before anything is opened. What cannot be named is refused with the options that can.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.secret_location import plain_properties, secret_location
from ehkafka.errors import ConfigurationError
from ehkafka.spark import secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.endpoint import Endpoint

_OPTIONS = {
    "variable": "connectionStringEnv",
    "file": "connectionStringFile",
    "namespace": "namespace",
    "bootstrap": "kafka.bootstrap.servers",
}
# Of members of a group, which tasks are not.
_MEMBERSHIP = (
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "group.instance.id",
)
ADVICE = (
    "On Spark, each executor makes its own endpoint. Describe the endpoint for the executors: "
    "source_options={'connectionStringEnv':"
    " 'NAME'}, or connectionStringFile, namespace with credential or credentialFactory, or endpointFactory:"
    " 'module:function' that returns the Endpoint."
)
ADVICE_FOR_COMMAND = (
    "On Spark, executors make the endpoint themselves, by the app's own way: give the app "
    "Endpoint.from_env(), Endpoint.connection_string(Path(…)) or Endpoint.entra(…) with a credential's name,"
    " and each machine that variable or file. Any other way is an option of the command: "
    "--source-option endpointFactory=module:function, which returns the Endpoint."
)


def reach_options(
    endpoint: Endpoint,
    given: Mapping[str, str],
    environ: Mapping[str, str] | None = None,
    consumer: Mapping[str, object] | None = None,
    advice: str = ADVICE,
) -> dict[str, str]:
    """Return the options that name the broker: the given ones, if they do, else the endpoint's own way.

    `consumer` are the app's own properties. Raises `ConfigurationError` for an endpoint that cannot be named
    without its secret; `advice` is its last sentence.
    """
    names = {name.lower() for name in given}
    ways = {way.lower() for way in secrets.WAYS} | {"kafka.bootstrap.servers"}
    try:
        if names & ways:
            return {} if "endpointfactory" in names else _client_options(consumer or {})
        found = secret_location(endpoint, os.environ if environ is None else environ)
        own = _client_options(consumer or {})
    except ConfigurationError as error:
        raise ConfigurationError(f"{error} {advice}") from None
    options = {_OPTIONS[found.way]: found.value}
    if found.credential is not None:
        options["credential"] = found.credential
    if found.client_id is not None:
        options["clientId"] = found.client_id
    return (
        options | {f"{secrets.CLIENT_PREFIX}{name}": value for name, value in found.properties.items()} | own
    )


def _client_options(consumer: Mapping[str, Any]) -> dict[str, str]:
    properties = in_one_spelling(consumer, "App(consumer=…)")
    plain = plain_properties({name: value for name, value in properties.items() if name not in _MEMBERSHIP})
    return {f"{secrets.CLIENT_PREFIX}{name}": value for name, value in plain.items()}
