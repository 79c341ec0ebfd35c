"""`ehkafka dlq …`: options and help texts, and nothing of what they do. `commands` joins it to the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import reported
from ehkafka.cli.option_groups import OfEndpoint, Yes, grouped
from ehkafka.cli.options import topic_names

LIST_HELP = """List what a dead-letter topic holds: how many of what, and the newest ones.

Joins no group and commits nothing.

\b
Examples:
  ehkafka dlq list readings.dead --app shop.readings:app
  ehkafka dlq list readings.dead --endpoint localhost:9092 --since -1h --error timeout
  ehkafka dlq list readings.dead --key home-7 --limit 100 --json

"""
SHOW_HELP = """Show one letter whole: where it came from, why it failed, its headers and its value.

What is not printable is escaped.

\b
Examples:
  ehkafka dlq show readings.dead 3@1207 --app shop.readings:app
  ehkafka dlq show readings.dead 3@1207 --json

"""
REDRIVE_HELP = """Write dead letters back to the topic and partition that they came from.

Fix the handler first. Without --yes it only says what it would do. A record gets its key, value and headers
back; the headers of the letter are removed, and ehkafka-redriven counts how often the record was redriven.
The records of one partition are written in the order in which they failed.

The commits of a group, TOPIC.redrive, keep the progress: an interrupted redrive continues where it stopped
(records of its last second may be written twice), and one that has ended does nothing when started again.
A letter that a filter leaves out is passed over for good; another --group can take it later.

\b
Examples:
  ehkafka dlq redrive readings.dead --app shop.readings:app             what would be done
  ehkafka dlq redrive readings.dead --app shop.readings:app --yes
  ehkafka dlq redrive readings.dead --error timeout --group timeouts --yes
  ehkafka dlq redrive readings.dead --to readings.retry --yes           another topic

"""

dlq = CommandLine(help="List, show and redrive dead letters.")

Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic of the dead letters.", callback=topic_names)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """Which letters are meant."""

    key: Annotated[str | None, typer.Option(help="Only letters of this key.")] = None
    error: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only letters whose error's type or text contains this."),
    ] = None
    origin_topic: Annotated[
        str | None,
        typer.Option(
            "--origin-topic", metavar="TOPIC", help="Only letters that came from there.", callback=topic_names
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="Only what failed since then: -10m (s, m, h, d), or a moment."),
    ] = None


@dlq.command("list", help=LIST_HELP)
@grouped
def list_letters(
    topic: Topic,
    *,
    letters: Letters,
    limit: Annotated[int, typer.Option(min=0, help="How many of the newest letters to list.")] = 20,
    of: OfEndpoint,
) -> None:
    """List what a dead-letter topic holds."""
    from ehkafka.cli.check_target import chosen_target  # noqa: PLC0415
    from ehkafka.cli.dlq import dlq as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        target = chosen_target(of.app, of.endpoint, topics=[topic], config=of.config)
        choose = work.chosen_letters(letters)
        reader = work.reader_of(target, topic, of.timeout_s)
        work.list_letters(reader, choose, limit=limit, as_json=of.as_json)


@dlq.command("show", help=SHOW_HELP)
@grouped
def show_letter(
    topic: Topic,
    place: Annotated[str, typer.Argument(metavar="PARTITION@OFFSET", help="Which letter.")],
    *,
    of: OfEndpoint,
) -> None:
    """Show one letter whole."""
    from ehkafka.cli.check_target import chosen_target  # noqa: PLC0415
    from ehkafka.cli.dlq import dlq as work  # noqa: PLC0415 - `run` needs none of it

    with reported(debug=of.debug):
        target = chosen_target(of.app, of.endpoint, topics=[topic], config=of.config)
        work.show_letter(target, topic, place, timeout_s=of.timeout_s, as_json=of.as_json)


@dlq.command("redrive", help=REDRIVE_HELP)
@grouped
def redrive_letters(
    topic: Topic,
    *,
    letters: Letters,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Write them to this topic instead of their own.", callback=topic_names
        ),
    ] = None,
    group: Annotated[
        str, typer.Option(metavar="NAME", help="The group whose commits are the progress.")
    ] = "",
    yes: Yes = False,
    of: OfEndpoint,
) -> None:
    """Write dead letters back to the topic and partition that they came from."""
    from ehkafka.cli.check_target import chosen_target  # noqa: PLC0415
    from ehkafka.cli.dlq import dlq as work  # noqa: PLC0415 - `run` needs none of it
    from ehkafka.redrive.redrive import Redrive  # noqa: PLC0415

    with reported(debug=of.debug):
        redrive = Redrive(
            target=chosen_target(of.app, of.endpoint, topics=[topic], config=of.config),
            topic=topic,
            choose=work.chosen_letters(letters),
            to=to,
            group=group,
            timeout_s=of.timeout_s,
        )
        work.redrive_letters(redrive, yes=yes, as_json=of.as_json)
