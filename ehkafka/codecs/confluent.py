"""confluent-kafka's deserialisers as codecs: Avro, JSON Schema and Protobuf by a Confluent schema registry.

`decoder=AvroDeserializer(client)`: the client and its settings are the user's own. A registry that cannot be
asked is no fault of the record: it is retried later, as often as that takes, and its key waits. Called by
workers; a call may wait for the registry, once for each schema.
"""

from __future__ import annotations

import sys
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ehkafka.codecs import avro
from ehkafka.codecs.reason import of_library, of_own_code
from ehkafka.codecs.schemas import RETRY_S, NoSchema, Schemas
from ehkafka.codecs.validating import bound_jsonschema, bounded
from ehkafka.records.signals import RetryLater

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.records import Record

# How long a schema's name is by its first byte: 0 and the id, or 1 and its GUID. It is in a header, or before
# the payload; what follows it there may be of any length.
_NAME_BYTES: Final = {0: 5, 1: 17}
_NAME_HEADER: Final = "__value_schema_id"
# What a registry answers where it has no such schema, subject or version.
_UNKNOWN: Final = {40400, 40401, 40402, 40403}
_CLIENTS: Final = ("httpx", "httpx2", "httpcore", "httpcore2", "authlib")
_CHAIN_MAX: Final = 8
# Of the payload, where nothing of the registry stands behind it. A `TypeError` is a defect's.
_OF_THE_PAYLOAD = (ValueError, LookupError, ArithmeticError, EOFError)


class ConfluentCodec:
    """Decodes by one of confluent's deserialisers, which knows the record's topic and headers."""

    content_type = None
    may_block = True
    gives_plain = True

    def __init__(self, deserializer: object) -> None:
        self._deserializer = within_bounds(deserializer)
        self.name = type(deserializer).__qualname__
        self._schemas = Schemas()
        # A function of the user's own may find the id elsewhere.
        finds_id = getattr(deserializer, "_schema_id_deserializer", None)
        self._knows_names = getattr(finds_id, "__module__", "").startswith("confluent_kafka.")

    def decode_message(self, record: Record) -> Any:
        """Return the record's value. Raises `RetryLater` while the registry cannot be asked."""
        from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: PLC0415

        context = SerializationContext(record.topic(), MessageField.VALUE, [*record.headers()])
        return self._decoded(record.value(), context)

    def decode(self, value: bytes) -> Any:
        """Return what the bytes say, without topic and headers."""
        return self._decoded(value, None)

    def encode(self, value: object) -> bytes:
        """Refuse: confluent's serialisers are objects of their own."""
        raise TypeError(f"codec {self.name} cannot encode a value of type {type(value).__qualname__}")

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit: it is damaged, or its schema is unknown."""
        if isinstance(error, NoSchema):
            return str(error)
        if any(_is_of_registry(one) for one in _chain(error)):
            return None
        if (known := next(filter(None, map(of_library, _chain(error))), None)) is not None:
            return known
        if isinstance(error, _OF_THE_PAYLOAD) or type(error).__name__ == "SerializationError":
            return of_own_code(error)
        return None

    def _decoded(self, value: bytes | None, context: object) -> object:
        name = _schema_of(value, context) if self._knows_names else None
        if name is None or name in self._schemas.known:
            return self._called(value, context)
        found: list[Any] = []

        def ask() -> bool:
            found.append(self._called(value, context))
            return True

        self._schemas.get(name, ask)
        return found[0] if found else self._called(value, context)

    def _called(self, value: bytes | None, context: object) -> object:
        try:
            return self._deserializer(value, context)
        except Exception as error:
            if any(_is_unknown_schema(one) for one in _chain(error)):
                raise NoSchema("the schema registry does not have the payload's schema") from None
            if (reason := _outage(error)) is None:
                raise
            # Without the client's own text: it may hold the address with its password.
            raise RetryLater(RETRY_S, f"the schema registry gives no usable answer: {reason}") from None


def within_bounds(deserializer: Any) -> Callable[[bytes | None, Any], Any]:
    """Return what calls one of confluent's deserialisers so that no payload can end the process.

    The deserialisers' modules read Avro by `avro.read` from now on, in other code of the process, too.
    """
    for kind in type(deserializer).__mro__:
        module: object = sys.modules[kind.__module__]
        if hasattr(module, "schemaless_reader"):
            module.schemaless_reader = avro.read
        if hasattr(module, "validator_for"):
            bound_jsonschema()
    return partial(bounded, deserializer)


def _schema_of(value: bytes | None, context: Any) -> str | None:
    """Return the name of the schema that a record names, None where it names none in confluent's way."""
    in_headers = (one for name, one in (context.headers if context else ()) if name == _NAME_HEADER)
    written = next(in_headers, None) or value
    length = _NAME_BYTES.get(written[0]) if written else None
    return written[:length].hex() if written and length else None


def _outage(error: BaseException) -> str | None:
    """Return what keeps the registry from an answer; None where it gave one, or was not asked."""
    found = next((one for one in _chain(error) if _is_of_registry(one)), None)
    if found is None:
        return None
    status = getattr(found, "http_status_code", None)
    return f"it answered with HTTP status {status}" if status else type(found).__qualname__


def _is_unknown_schema(error: BaseException) -> bool:
    return getattr(error, "http_status_code", None) == 404 and getattr(error, "error_code", None) in _UNKNOWN


def _is_of_registry(error: BaseException) -> bool:
    """Tell whether an error is of the way to the registry, or the registry's own."""
    kind = type(error)
    library = kind.__module__.partition(".")[0]
    if isinstance(error, OSError) or library in _CLIENTS or _is_of_client(error):
        return True
    return library == "confluent_kafka" and kind.__name__ in ("SchemaRegistryError", "OAuthTokenError")


def _is_of_client(error: BaseException) -> bool:
    """Tell whether the client raised it: what is no JSON is a plain `ValueError` there, too."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__", "").endswith(".schema_registry_client") for frame, _ in frames)


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    for _ in range(_CHAIN_MAX):
        if one is None:
            return
        yield one
        one = one.__cause__ or one.__context__
