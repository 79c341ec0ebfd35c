"""One layer of settings: what a file, the environment or the command line says, each with its origin.

A value is checked as it is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from ehkafka.app.configuration import ENDPOINT_WAYS, in_one_spelling, shown
from ehkafka.app.handler_options import OPTIONS
from ehkafka.errors import ConfigurationError
from ehkafka.settings import PROPERTIES, Settings

PREFIX: Final = "EHKAFKA_"
"""What all variables begin with."""

OF_PROPERTIES: Final = ("endpoint.properties", *PROPERTIES)
"""Tables of librdkafka's properties."""

TABLES: Final = ("app", "endpoint", *OF_PROPERTIES)

# Properties have tables of their own.
NAMES: Final = tuple(field.name for field in fields(Settings) if field.name not in PROPERTIES)


def names_like(name: str) -> tuple[str, ...]:
    """Return what `--set` takes, for a guess at what a wrong name meant."""
    handler, dot, _ = name.rpartition(".")
    return (*NAMES, *(f"{handler}.{option}" for option in OPTIONS if dot and handler))


def hint(name: str, *, of: str) -> str:
    """Return how to set an option of a handler that was written as a setting of the app, or nothing."""
    return f": it belongs to one handler, so write {of}" if name in OPTIONS else ""


class HandlerValue(NamedTuple):
    """What one place says for an option of a handler.

    A variable's `name` is all that follows its prefix, and `option` None: only the app's handlers tell where
    the one ends and the other begins.
    """

    name: str
    option: str | None
    value: Any
    origin: str


class Written(NamedTuple):
    """A value, and the place where it is written."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: the values of each table by name.

    Those of `handlers` stand in the order in which they are laid over one another.
    """

    tables: dict[str, dict[str, Written]] = field(
        default_factory=lambda: {table: {} for table in TABLES}, repr=False
    )
    handlers: list[HandlerValue] = field(default_factory=list, repr=False)

    def take(self, table: str, name: str, value: object, origin: str, *, is_text: bool = True) -> None:
        """Check a value and take it; text may stand for other types. Raises `ConfigurationError`."""
        if table == "app":
            value = _checked(name, value, origin, is_text=is_text)
        elif table == "endpoint" and not (isinstance(value, str) and value):
            raise ConfigurationError(f"{origin} must be text that is not empty.")
        elif not isinstance(value, str | int | float):
            raise ConfigurationError(
                f"{origin}={shown(name, value)} is refused: give text, a number, true or false."
            )
        self.tables[table][name] = Written(value, origin)

    def take_option(self, handler: str, option: str, value: object, origin: str, *, is_text: bool) -> None:
        """Check an option of a handler and take it. Raises `ConfigurationError`."""
        value = _checked(option, value, origin, is_text=is_text)
        self.handlers.append(HandlerValue(handler, option, value, origin))

    def values(self, table: str) -> dict[str, Any]:
        """Return the values of a table by name."""
        return {name: one.value for name, one in self.tables[table].items()}

    def origins(self) -> dict[str, str]:
        """Return the place of each as `App.configure` takes it: of `group`, of `consumer.<property>`."""
        return {
            name if table == "app" else f"{table}.{name}": one.origin
            for table, written in self.tables.items()
            for name, one in written.items()
        }

    @property
    def way(self) -> Written | None:
        """The way to a broker that it names."""
        endpoint = self.tables["endpoint"]
        return next((endpoint[way] for way in ENDPOINT_WAYS if way in endpoint), None)

    def lay(self, layer: Layer) -> None:
        """Lay another layer over this one, its properties in our spelling.

        A way to a broker replaces the one below it, with all that belongs to that: its properties, too.
        Raises `ConfigurationError`.
        """
        if layer.way is not None:
            if self.way is not None:
                self.tables["endpoint.properties"].clear()
            self.tables["endpoint"].clear()
        self.handlers.extend(layer.handlers)
        for table in ("app", "endpoint"):
            self.tables[table].update(layer.tables[table])
        for table in OF_PROPERTIES:
            in_one_spelling(
                layer.values(table), table
            )  # as a whole: two names of one property may contradict
            for name, one in layer.tables[table].items():
                ((known, kept),) = in_one_spelling({name: one.value}, table).items()
                self.tables[table][known] = Written(kept, one.origin)


def _checked(name: str, value: object, origin: str, *, is_text: bool) -> Any:
    from ehkafka.cli.settings.model import checked  # noqa: PLC0415 - see there

    return checked(name, value, origin, is_text=is_text)
