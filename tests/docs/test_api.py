"""The API reference has a place for each name that a program may use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import ehkafka
from tests.kit.api_pages import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

# The rooms whose names a program writes, in addition to the package's own.
ROOMS = ("aio", "arrow", "checkpoints", "http", "metrics", "offsets", "otel", "spark", "telemetry", "testing")


def public_names() -> Iterator[str]:
    """Yield the dotted names of all that a program may use."""
    yield from (f"ehkafka.{name}" for name in dir(ehkafka))
    for room in ROOMS:
        module = importlib.import_module(f"ehkafka.{room}")
        classes = [name for name, thing in vars(module).items() if isinstance(thing, type)]
        yield from (f"ehkafka.{room}.{name}" for name in getattr(module, "__all__", classes))
    for name, thing in vars(ehkafka.errors).items():
        if isinstance(thing, type) and issubclass(thing, ehkafka.EhkafkaError):
            yield f"ehkafka.errors.{name}"
    kinds = {kind.__module__ for kind in vars(ehkafka.events).values() if hasattr(kind, "sentence")}
    yield from kinds


def test_every_public_name_has_its_place() -> None:
    """On a page of the API, or with its whole group on the page of events."""
    missing = set(public_names()) - shown() - {"ehkafka.errors.EhkafkaError", "ehkafka.events.event"}
    assert sorted(missing) == []
