"""Options of `ehkafka run` for a run that ends by itself, and what they may not be together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ehkafka.cli.spark_options import Engine
from ehkafka.errors import ConfigurationError

UntilCaughtUp = Annotated[
    bool,
    typer.Option(
        "--until-caught-up", help="End with 0 when all up to where the logs end now is done and committed."
    ),
]
SettleForS = Annotated[
    float | None,
    typer.Option(
        "--settle-for",
        metavar="SECONDS",
        min=0.1,
        help="How long records may wait (held, for a retry, paused) before that ends with 4.",
        show_default="60",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilGiven:
    """What was given for the end of a run."""

    until_caught_up: bool
    settle_for_s: float | None

    def arguments(self, engine: Engine) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        if self.until_caught_up and engine is Engine.SPARK:
            raise ConfigurationError(
                "--until-caught-up: not with --engine spark, where --available-now does the same."
            )
        if self.settle_for_s is not None and not self.until_caught_up:
            raise ConfigurationError("--settle-for is for --until-caught-up: add that, or leave it out.")
        if not self.until_caught_up:
            return {}
        settle_s = {} if self.settle_for_s is None else {"settle_s": self.settle_for_s}
        return {"until": "caught_up", **settle_s}
