"""Opens librdkafka's clients and explains its errors. The only file of this room that imports it.

Turns what librdkafka says about a property into a ConfigurationError with a suggestion; secrets that it
repeats are struck out. Called by the client's owner, on the thread that is going to use it.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, libversion
from confluent_kafka import version as client_version
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import Consumer, Producer

from ehkafka.endpoint.causes import CAUSE_UNKNOWN, CAUSES
from ehkafka.endpoint.properties.known_names import KNOWN
from ehkafka.endpoint.properties.limits import CLIENT_VERSION_MIN, CLIENT_VERSIONS_BROKEN
from ehkafka.endpoint.properties.names import is_secret
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended
from ehkafka.wording.line import printable
from ehkafka.wording.secrets import STRUCK, struck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Client = TypeVar("_Client")

_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "(?P<name>[^"]*)"')


def open_consumer(properties: Mapping[str, object], **callbacks: Any) -> Consumer:
    """Open a consumer. `callbacks` are `error_cb`, `stats_cb`, `on_commit`, … and `logger`.

    Raises `ConfigurationError` for whatever librdkafka does not accept, without a secret in it.
    """
    group = properties.get("group.id")
    # librdkafka makes a group-less client of it, and confluent-kafka then aborts the whole process.
    if not isinstance(group, str) or not group:
        raise ConfigurationError("group.id is missing, but a consumer needs a group: set App(group=…)")
    return _open(Consumer, "consumer", properties, callbacks)


def initialise_consumer(
    initialise: Callable[[dict[str, Any]], object], properties: Mapping[str, object]
) -> None:
    """Open the consumer that a class of confluent-kafka's kind is about to be; errors as `open_consumer`."""
    _open(initialise, "consumer", properties, {})


def open_producer(properties: Mapping[str, object], **callbacks: Any) -> Producer:
    """Open a producer; errors as for `open_consumer`."""
    return _open(Producer, "producer", properties, callbacks)


def open_admin(properties: Mapping[str, object], **callbacks: Any) -> AdminClient:
    """Open a client for questions about the cluster; errors as for `open_consumer`."""
    return _open(AdminClient, "admin client", properties, callbacks)


def check_client_version(client: str | None = None, library: str | None = None) -> None:
    """Refuse a confluent-kafka or librdkafka that loses commits or cannot talk to Event Hubs.

    Without arguments the installed ones are checked.
    """
    found = {
        "confluent-kafka": client or _text(client_version()),
        "librdkafka": library or _text(libversion()),
    }
    for name, version in found.items():
        parsed = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
        if parsed in CLIENT_VERSIONS_BROKEN:
            reason = "cannot talk to Event Hubs"
        elif parsed < CLIENT_VERSION_MIN:
            reason = "is too old: such releases lose commits, or refresh tokens only while polling"
        else:
            continue
        least = ".".join(map(str, CLIENT_VERSION_MIN))
        raise ConfigurationError(f"{name} {version} {ended(reason)} Install confluent-kafka>={least}.")


def describe_error(error: KafkaError) -> str:
    """Return the error's name and text with its usual cause and the next step, in one line."""
    # The broker's own words may be among them: nothing that steers a terminal gets through.
    shown = printable(" ".join(struck(error.str()).split()))
    return f"{error.name()} ({shown}): {CAUSES.get(error.name(), CAUSE_UNKNOWN)}"


def _open(
    factory: Callable[[dict[str, Any]], _Client],
    what: str,
    properties: Mapping[str, object],
    callbacks: Mapping[str, Callable[..., object]],
) -> _Client:
    if taken := sorted(callbacks.keys() & properties.keys()):
        raise ConfigurationError(
            f"{', '.join(taken)} cannot be set, because ehkafka sets this property itself. Leave the "
            f"property out: the app's hooks and on_error report the same events."
        )
    # Without a token the client's constructor would wait 10 s for one and not say why there is none.
    tokens = getattr(properties.get("oauth_cb"), "__self__", None)
    if tokens is not None:
        from ehkafka.endpoint.entra.token_source import TokenSource  # noqa: PLC0415 - for Entra ID alone

        if isinstance(tokens, TokenSource):
            tokens.sign_in()
    try:
        return factory({**properties, **callbacks})
    except KafkaException as problem:
        shown = problem.args[0].str() if problem.args else str(problem)
    except (TypeError, ValueError) as problem:
        shown = str(problem)
    # Raised outside of the handler: librdkafka's own error may repeat a secret, so it is no cause or context.
    raise ConfigurationError(f"the {what} cannot be opened: {_explained(shown, properties)}")


def _explained(shown: str, properties: Mapping[str, object]) -> str:
    unknown = _UNKNOWN_PROPERTY.search(shown)
    if unknown is None:
        return f"{_struck(' '.join(shown.split()), properties)}. Correct that property, or leave it out."
    name = _struck(unknown["name"], properties)
    close = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    hint = f"did you mean {close[0]}?" if close else "see librdkafka's CONFIGURATION.md for the names."
    return f"librdkafka knows no property {name!r}; {hint}"


def _struck(text: str, properties: Mapping[str, object]) -> str:
    for name, value in properties.items():
        # A shorter one would strike out half of the sentence.
        if is_secret(name, value) and isinstance(value, str) and len(value) >= 4:
            text = text.replace(value, STRUCK)
    return struck(text)


def _text(version: object) -> str:
    """Return the version's text; the two calls differ in shape, and the type stubs are wrong on one."""
    return str(version[0] if isinstance(version, tuple) else version)
