"""Where an app writes to, besides commits: topics of outputs and of dead letters. Part of `Registration`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.recovery.policy import DeadLetter

if TYPE_CHECKING:
    from ehkafka.handlers.spec import HandlerSpec


class Written:
    """Topics that must be there when the app starts."""

    def __init__(self) -> None:
        self._specs: list[HandlerSpec] = []

    @property
    def letter_topics(self) -> tuple[str, ...]:
        """The topics to which handlers send dead letters, sorted."""
        policies = (spec.on_failure for spec in self._specs)
        return tuple(
            sorted({one.to for one in policies if isinstance(one, DeadLetter) and isinstance(one.to, str)})
        )

    @property
    def output_topics(self) -> tuple[str, ...]:
        """The topics to which handlers send outputs, sorted."""
        return tuple(sorted({topic for spec in self._specs for topic in spec.to}))
