"""Every value in effect, of endpoint, app, handlers and consumer: what it is, who decided it, and why.

Called by `Configuration.explain` alone, and loaded then: an app that runs explains nothing. Shows no secret.
Opens no client; asking an endpoint for its properties may start an embedded broker or read a key, as the
start of the app would.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ehkafka.app.configuration import CODE, OF_ENDPOINT
from ehkafka.app.handler_options import key_of, tunable
from ehkafka.endpoint.properties.advice import consumer_advice
from ehkafka.endpoint.properties.known_names import KNOWN
from ehkafka.endpoint.properties.layers import explain_consumer
from ehkafka.endpoint.properties.names import shown
from ehkafka.outputs.properties import OURS, check_producer, message_properties
from ehkafka.progress.pacing import commit_pacing
from ehkafka.run.options import ahead_of, properties_of
from ehkafka.settings import PROPERTIES, Settings, options_of
from ehkafka.wording import seconds
from ehkafka.workers.auto import Auto
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.endpoint.properties.layers import Explained
    from ehkafka.handlers.spec import HandlerSpec

DEFAULT = "default"
# Why less is used than a setting asks for.
_BOUNDS = {
    "commit_interval_s": "Event Hubs takes few commits a second of a partition",
    "drain_s": "a revoke that takes half of max.poll.interval.ms already risks the membership",
}


@dataclass(frozen=True, slots=True)
class Effective:
    """One value in effect, safe to show: `***` stands for a secret.

    `origin` names the place that decided it (a variable, `file: key`, a flag, `code`, `default`, `engine`
    for what only the engine sets, `endpoint`); `reason` is one line, `advice` what speaks against it.
    """

    section: Literal["endpoint", "app", "handlers", "consumer", "producer"]
    name: str
    value: str | float | bool | None
    origin: str
    reason: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What explains one app's values. `origins` has what was given by whom."""

    endpoint: Endpoint
    settings: Settings
    origins: Mapping[str, str]
    specs: tuple[HandlerSpec, ...] = ()

    def of_all(self) -> tuple[Effective, ...]:
        """Return all values in effect. Raises `ConfigurationError` for what the start would refuse."""
        return (
            *self._of_endpoint(),
            *self._of_settings(),
            *(value for spec in self.specs for value in self._of_handler(spec)),
            *self._of_consumer(),
            *self._of_producer(),
        )

    def _of_endpoint(self) -> Iterator[Effective]:
        endpoint = self.endpoint
        origin = self.origins["endpoint"]
        yield Effective("endpoint", "kind", endpoint.kind, origin, "decides whose limits apply")
        yield Effective("endpoint", "name", endpoint.name, origin, "the broker, in logs and pages")
        yield Effective(
            "endpoint", "default_topic", endpoint.default_topic, origin, "of handlers that name no topic"
        )

    def _of_settings(self) -> Iterator[Effective]:
        bounded = self._bounded()
        for one in options_of(Settings):
            if one.name not in PROPERTIES:  # which are a section of their own
                value = _plain(one.name, getattr(self.settings, one.name))
                origin = self.origins.get(one.name, DEFAULT)
                yield Effective("app", one.name, value, origin, one.meaning, bounded.get(one.name, ""))

    def _of_handler(self, spec: HandlerSpec) -> Iterator[Effective]:
        """Yield what of a handler may be decided outside of the code."""
        names = tunable(spec).options
        for one in options_of(type(spec)):
            if one.name not in names:
                continue
            value = getattr(spec, one.name)
            # What the code has given is not kept: where it gave the default, that decided as well.
            origin = DEFAULT if value == one.default else CODE
            origin = self.origins.get(key_of(spec.name, one.name), origin)
            if isinstance(value, Processes):
                value = f"Processes({value.size})"
            elif isinstance(value, Auto):
                value = str(value)
            name = f"{spec.name}.{one.name}"
            yield Effective("handlers", name, _plain(one.name, value), origin, one.meaning)

    def _bounded(self) -> dict[str, str]:
        """Return what is used instead of settings that ask for more than the engine gives."""
        settings, is_event_hubs = self.settings, self.endpoint.is_event_hubs
        poll_ms = properties_of(self.endpoint, self.settings)["max.poll.interval.ms"]
        used = {
            "commit_interval_s": commit_pacing(settings, is_event_hubs=is_event_hubs).interval_s,
            "drain_s": settings.drain_used_s(poll_ms),
        }
        return {
            name: f"{value:g} is used, for {_BOUNDS[name]}"
            for name, value in used.items()
            if getattr(settings, name) not in (None, value)
        }

    def _of_consumer(self) -> Iterator[Effective]:
        settings = self.settings
        membership: dict[str, Any] = {"assignor": settings.assignor, "instance_id": settings.instance_id}
        asked = (self.endpoint, settings.group, settings.consumer)
        advice = {
            each.property: f"{each.advice} ({each.source})"
            for each in consumer_advice(self.endpoint, properties_of(self.endpoint, self.settings))
        }
        for each in explain_consumer(*asked, **membership, ahead=ahead_of(settings)):
            # The value of an unknown name may be a secret until librdkafka has refused the name.
            value = _plain(each.name, each.value) if each.name in KNOWN else "***"
            yield Effective(
                "consumer", each.name, value, self._origin_of(each), each.reason, advice.get(each.name, "")
            )

    def _of_producer(self) -> Iterator[Effective]:
        """Yield what the app or we set for its producers; how they reach the broker stands above."""
        if not (self.settings.producer or any(spec.to for spec in self.specs)):
            return
        given, used = (
            check_producer(self.endpoint, self.settings),
            message_properties(self.endpoint, self.settings),
        )
        for name in sorted({*given, *OURS}):
            value = _plain(name, used[name]) if name in KNOWN else "***"
            origin = self.origins.get(f"producer.{name}", CODE) if name in given else DEFAULT
            yield Effective("producer", name, value, origin, OURS.get(name, ""))

    def _origin_of(self, explained: Explained) -> str:
        if explained.layer == "app":
            return self.origins.get(f"consumer.{explained.name}", CODE)
        if explained.layer == "endpoint":
            return self.origins.get(OF_ENDPOINT + explained.name, explained.layer)
        return explained.layer


def _plain(name: str, value: object) -> str | float | bool | None:
    """Return a value as it may be shown and written as JSON."""
    text = shown(name, value)
    if text == "***" or value is None or isinstance(value, bool | int | float):
        return text if text == "***" else value  # type: ignore[return-value]
    if isinstance(value, timedelta):
        return f"{seconds(value.total_seconds())}"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(getattr(value, "__name__", value))
