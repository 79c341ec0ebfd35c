"""Codecs: from a record's bytes to the type that a handler asks for, and from a value to bytes.

`codec` is the protocol and chooses one: by an annotation, or by a value that is to be sent. `plain` are
bytes, text and JSON by orjson, `typed` what msgspec decodes (dataclasses, structs, TypedDicts), `models` what
pydantic does, `whose` tells which of the two. `encoding` writes values as JSON, so that the same codecs can
read them. `custom` makes a codec of a user's own function; `confluent` and `azure` decode by the schema that
a record names: `schemas` keeps what a registry answered, `avro` and `validating` bound what a payload may
take. `reason` says why a payload does not fit, and shows nothing of it.

A codec is made when a handler is registered, and called by workers, in several threads at once. It knows no
handler and no failure policy: it raises, and `misfit` says whether the payload was to blame. Each third-party
package is loaded when a type asks for it: the extra `[types]` for what msgspec decodes, `[avro]` for schemas.
"""

from __future__ import annotations

from ehkafka.codecs.azure import AzureSchemaRegistry
from ehkafka.codecs.codec import Codec, codec_for, codec_of_value
from ehkafka.codecs.custom import per_process

__all__ = ["AzureSchemaRegistry", "Codec", "codec_for", "codec_of_value", "per_process"]
