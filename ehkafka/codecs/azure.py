"""Azure Schema Registry: payloads as its Avro and JSON encoders write them, decoded by the schema they name.

The schema's id stands in the `content-type` header: `avro/binary+<id>`, or
`application/json;serialization=Json+<id>`. Each schema is asked for once and kept. A registry that cannot be
asked is no fault of the record: it is retried later, as often as that takes, and its key waits. Called by
workers. Needs the extra `[avro]`. No live registry was tried: the formats are those of Microsoft's packages.
"""

from __future__ import annotations

import importlib
import json
import re
import threading
from io import BytesIO
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.codecs import avro
from ehkafka.codecs.reason import of_library, of_own_code
from ehkafka.codecs.schemas import RETRY_S, NoSchema, Schemas
from ehkafka.codecs.validating import bound_jsonschema, bounded
from ehkafka.errors import MissingExtraError
from ehkafka.headers.reading import content_type
from ehkafka.records.signals import RetryLater
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.records import Record

_AVRO = "avro/binary"
_JSON = "application/json;serialization=json"
# As long as the service makes them, and longer; what stands in an address must not lead elsewhere.
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
# A worker waits for these: the record is retried anyway.
_CLIENT_OPTIONS = {"retry_total": 1, "connection_timeout": 5, "read_timeout": 10}
# What reading raises about the bytes. Not what a defect raises, such as `TypeError`.
_OF_THE_PAYLOAD = (ValueError, LookupError, ArithmeticError, EOFError)


class AzureSchemaRegistry:
    """Decodes by the schemas of one namespace: `decoder=AzureSchemaRegistry("home.servicebus.windows.net")`.

    - `namespace` (default `""`): the host name of the Event Hubs namespace. Empty only with `client`.
    - `credential` (default `None`): one of azure-identity. None: `DefaultAzureCredential`.
    - `client` (default `None`): in place of both, a `SchemaRegistryClient` with options of your own.
    """

    name = "its schema in Azure's registry"
    content_type = None
    may_block = True
    gives_plain = True

    def __init__(self, namespace: str = "", credential: Any = None, *, client: Any = None) -> None:
        self._namespace = namespace
        self._credential = credential
        self._client = client
        # Each schema's decoder, by its format and id.
        self._schemas = Schemas()
        # Guards the making of the client: workers begin together.
        self._lock = threading.Lock()
        _load()

    def __reduce__(self) -> tuple[type[AzureSchemaRegistry], tuple[str, Any]]:
        if self._namespace == "":
            raise TypeError(
                "a schema registry client cannot be sent to another process: give "
                "AzureSchemaRegistry the namespace instead"
            )
        return type(self), (self._namespace, self._credential)

    def __repr__(self) -> str:
        return f"AzureSchemaRegistry({self._namespace!r})"

    def decode_message(self, record: Record) -> Any:
        """Return the record's value. Raises `RetryLater` while its schema cannot be asked for."""
        kind, schema_id = _named_schema(content_type(record))
        name = f"{kind}+{schema_id}"
        decode = self._schemas.known.get(name)
        if decode is None:
            decode = self._schemas.get(name, lambda: self._made(kind, schema_id))
        return decode(record.value() or b"")

    def decode(self, value: bytes) -> Any:
        """Refuse: the bytes alone do not say which schema they have."""
        raise TypeError(
            f"{len(value)} bytes without headers cannot be decoded, because the record's "
            f"content-type header names the schema"
        )

    def encode(self, value: object) -> bytes:
        """Refuse: Microsoft's encoders write the header, too."""
        raise TypeError(f"a {type(value).__qualname__} cannot be sent: use azure-schemaregistry's encoders")

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit."""
        if (known := of_library(error)) is not None:
            return known
        return of_own_code(error) if isinstance(error, _OF_THE_PAYLOAD) else None

    def _made(self, kind: str, schema_id: str) -> Callable[[bytes], object]:
        """Return a schema's decoder. Raises `NoSchema`, also for a schema that cannot be read."""
        definition = self._definition(schema_id)
        if definition is None:
            raise NoSchema(f"the schema registry has no schema {schema_id} of the payload's format")
        return _avro(definition, schema_id) if kind == _AVRO else _json(definition, schema_id)

    def _definition(self, schema_id: str) -> str | None:
        from azure.core.exceptions import AzureError, ResourceNotFoundError  # noqa: PLC0415

        try:
            return str(self._opened().get_schema(schema_id).definition)
        except ResourceNotFoundError:
            return None
        except (AzureError, OSError) as error:
            # Without the client's own text: it may hold what the service answered.
            kind, status = type(error).__qualname__, getattr(error, "status_code", None)
            reason = f"it answered with HTTP status {status}" if status else kind
            raise RetryLater(RETRY_S, f"the schema registry gives no usable answer: {reason}") from None

    def _opened(self) -> Any:
        with self._lock:
            if self._client is None:
                from azure.identity import DefaultAzureCredential  # noqa: PLC0415
                from azure.schemaregistry import SchemaRegistryClient  # noqa: PLC0415

                credential = self._credential or DefaultAzureCredential()
                self._client = SchemaRegistryClient(self._namespace, credential, **_CLIENT_OPTIONS)
            return self._client


def _load() -> None:
    try:
        for name in ("azure.schemaregistry", "fastavro", "jsonschema", "regex"):
            importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"AzureSchemaRegistry needs {error.name}: {install('avro')}.") from None


def _named_schema(written: str | None) -> tuple[str, str]:
    """Return format and id of a content type, as the encoders write it."""
    kind, plus, schema_id = (written or "").replace(" ", "").rpartition("+")
    if not plus or kind.lower() not in (_AVRO, _JSON) or _ID.fullmatch(schema_id) is None:
        raise NoSchema("its content-type header names no schema (expected: avro/binary+<id>)")
    return kind.lower(), schema_id


def _avro(definition: str, schema_id: str) -> Callable[[bytes], object]:
    import fastavro  # noqa: PLC0415

    try:
        schema = fastavro.parse_schema(orjson.loads(definition))
    except Exception as error:
        raise NoSchema(f"its schema {schema_id} is not a valid Avro schema") from error
    return lambda value: avro.read(BytesIO(value), schema, None)


def _json(definition: str, schema_id: str) -> Callable[[bytes], object]:
    import jsonschema  # noqa: PLC0415
    import referencing.jsonschema  # noqa: PLC0415

    bound_jsonschema()
    try:
        schema = json.loads(definition)
        kind = jsonschema.validators.validator_for(schema)
        kind.check_schema(schema)
        # With a registry of its own it never loads what a schema refers to from the network.
        check = kind(schema, registry=referencing.jsonschema.EMPTY_REGISTRY)
    except Exception as error:
        raise NoSchema(f"its schema {schema_id} is not a valid JSON schema") from error

    def decode(value: bytes) -> Any:
        bounded(check.validate, found := json.loads(value))
        return found

    return decode
