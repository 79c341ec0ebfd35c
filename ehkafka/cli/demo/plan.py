"""What a run of the demo was asked to do. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from ehkafka import Endpoint

HOMES = 100_000
PARTITIONS = 16
SECONDS_DEFAULT = 20.0
EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """One run: it ends after `seconds` of producing or with the last of `records`, what comes first."""

    seconds: float | None
    records: int | None
    # As the user wrote it, for messages.
    address: str
    endpoint: Endpoint
    topic: str
    workers: int

    @classmethod
    def chosen(
        cls, *, seconds: float | None, records: int | None, endpoint: str, topic: str, workers: int
    ) -> DemoPlan:
        """Return the plan for the command's options. Raises `ConfigurationError` for a bad address."""
        if seconds is None and records is None:
            seconds = SECONDS_DEFAULT
        where = Endpoint.embedded({topic: PARTITIONS}) if endpoint == EMBEDDED else Endpoint.kafka(endpoint)
        return cls(
            seconds=seconds,
            records=records,
            address=endpoint,
            endpoint=where,
            topic=topic,
            workers=workers,
        )

    @property
    def is_embedded(self) -> bool:
        """Whether the broker is ours, made for this run and gone after it."""
        return self.endpoint.kind == "embedded"
