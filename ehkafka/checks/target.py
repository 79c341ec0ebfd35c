"""What is to be looked at: an endpoint, and the group and topics on it. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from ehkafka.endpoint.properties.ahead import OF_A_COMMAND
from ehkafka.endpoint.properties.layers import consumer_properties
from ehkafka.settings.secret import HiddenProperties

if TYPE_CHECKING:
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.endpoint.properties.layers import Assignor
    from ehkafka.settings import Settings

OWN_GROUP = "ehkafka-check"
"""The group that a look without the user's group uses, and the only one that is ever committed to.
One fixed name, because Event Hubs takes 1000 groups in a namespace."""


class AnApp(Protocol):
    """What is read of an `App`."""

    @property
    def endpoint(self) -> Endpoint:
        """How it reaches the broker."""

    @property
    def settings(self) -> Settings:
        """Its settings."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all its handlers."""

    @property
    def mirror(self) -> MirrorChoice | None:
        """The mirror that it was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An endpoint with a group and topics, either of which may be left open.

    - `endpoint` (required): where the broker is.
    - `group` (default `None`): the consumer group. None: it is left open.
    - `topics` (default `()`): their names. Empty: they are left open.
    - `consumer` (default `{}`): librdkafka's properties, by name.
    - `assignor` (default `"default"`): as in `ehkafka.settings.Settings`.
    - `instance_id` (default `None`): likewise.
    - `mirror` (default `None`): the copy of the commits, such as `BlobMirror`.
    """

    endpoint: Endpoint
    group: str | None = None
    topics: tuple[str, ...] = ()
    # Shown in no form, nor pickled: a password may be among them. Any mapping may be given.
    consumer: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hide the properties."""
        if isinstance(self.consumer, Mapping):  # else it is refused where the properties are read
            object.__setattr__(self, "consumer", HiddenProperties(self.consumer))

    assignor: Assignor = "default"
    instance_id: str | None = None
    mirror: MirrorChoice | None = None

    @classmethod
    def of_app(cls, app: AnApp, *, group: str | None = None, topics: tuple[str, ...] = ()) -> Self:
        """Return what the app would use.

        - `app` (required): an `ehkafka.App`.
        - `group` (default `None`): in place of its own.
        - `topics` (default `()`): in place of those of its handlers.
        """
        settings = app.settings
        return cls(
            endpoint=app.endpoint,
            group=group or settings.group,
            topics=topics or app.topics,
            consumer=settings.consumer,
            assignor=settings.assignor,
            instance_id=settings.instance_id if group in (None, settings.group) else None,
            mirror=app.mirror,
        )

    def client_properties(self) -> dict[str, Any]:
        """Return the properties of the app's own consumer, secrets in the clear.

        Raises `ConfigurationError` for what the app's start would refuse.
        """
        return consumer_properties(
            self.endpoint,
            self.group or OWN_GROUP,
            self.consumer,
            assignor=self.assignor,
            instance_id=self.instance_id,
        )


def as_own_group(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return the same client in our own group, and as no static member."""
    kept = {name: value for name, value in properties.items() if name != "group.instance.id"}
    return {**kept, **OF_A_COMMAND.properties, "group.id": OWN_GROUP}
