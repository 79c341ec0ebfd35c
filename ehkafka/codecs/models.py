"""What pydantic decodes: its models and dataclasses, its types and rules, and whatever holds one of them."""

from __future__ import annotations

from typing import Any

from ehkafka.codecs.encoding import to_json
from ehkafka.codecs.reason import of_pydantic
from ehkafka.codecs.typed import name_of
from ehkafka.errors import ConfigurationError, describe
from ehkafka.wording import ended


class ModelCodec:
    """Decodes JSON to a model, by the model's own rules. `convert` makes it of plain values."""

    content_type = "application/json"

    def __init__(self, annotation: Any) -> None:
        import pydantic  # noqa: PLC0415 - a program with a model has it

        self._annotation = annotation
        self.name = name_of(annotation)
        try:
            adapter: Any = pydantic.TypeAdapter(annotation)
            # A model whose fields name what is not there yet is made, and fails at its first payload.
            adapter.rebuild(raise_errors=True)
        except Exception as error:
            raise ConfigurationError(
                f"the type {self.name} cannot be decoded: {ended(describe(error))} Correct the type, or "
                f"give decoder= a function of the bytes."
            ) from error
        self._misfit = pydantic.ValidationError
        self.decode = adapter.validate_json
        self.convert = adapter.validate_python

    def encode(self, value: object) -> bytes:
        """Return a value as JSON."""
        return to_json(value)

    def misfit(self, error: Exception) -> str | None:
        """Return why the payload does not fit: the first field, and how many more there are."""
        return of_pydantic(error) if isinstance(error, self._misfit) else None

    def __reduce__(self) -> tuple[type[ModelCodec], tuple[Any]]:
        return type(self), (self._annotation,)
