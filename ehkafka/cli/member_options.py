"""Options of `ehkafka run` for an app in several processes, and what they may not be together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ehkafka.cli.spark_options import Engine
from ehkafka.errors import ConfigurationError
from ehkafka.members.count import count_from_text

MembersOption = Annotated[
    str | None,
    typer.Option("--members", metavar="N", help="Run the app in N processes; auto: one for each core."),
]
MembersMin = Annotated[
    int | None,
    typer.Option("--members-min", metavar="N", help="With fewer members that are ready, /ready fails."),
]
HungS = Annotated[
    float | None,
    typer.Option("--hung-s", metavar="SECONDS", help="Kill and restart a member that is not live so long."),
]
HealthFile = Annotated[
    Path | None,
    typer.Option("--health-file", metavar="FILE", help="Touch it every few seconds while all is live."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersGiven:
    """What was given for members."""

    members: str | None
    members_min: int | None
    hung_s: float | None
    health_file: Path | None

    def arguments(self, engine: Engine) -> dict[str, Any]:
        """Return what `App.run` is given. Raises `ConfigurationError`."""
        given: dict[str, object] = {"--members": self.members, "--members-min": self.members_min}
        given |= {"--hung-s": self.hung_s, "--health-file": self.health_file}
        if engine is Engine.SPARK and (named := [name for name, value in given.items() if value is not None]):
            raise ConfigurationError(
                f"{', '.join(named)}: not with --engine spark, where tasks on executors do the work and "
                "Spark starts them again. Leave it out, or run without --engine spark."
            )
        if self.members is None and not (self.hung_s is None and self.members_min is None):
            raise ConfigurationError(
                "--hung-s and --members-min are for members: add --members 2, or leave them out."
            )
        count = None if self.members is None else count_from_text(self.members)
        return {
            "members": count,
            "members_min": self.members_min,
            "hung_s": self.hung_s,
            "health_file": self.health_file,
        }
