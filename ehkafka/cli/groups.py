"""`ehkafka groups`: the consumer groups of a broker, and how far each is behind. On the main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.options import OfEndpoint, OneTopic
from ehkafka.cli.output import columns, put_json, put_text
from ehkafka.cli.progress import progress_of
from ehkafka.cli.target import cluster_of
from ehkafka.wording import counted
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from ehkafka.offsets.cluster import GroupView

HEADERS: Final = ("GROUP", "STATE", "MEMBERS", "LAG", "TOPICS", "")

cli = CommandLine()


@cli.command("groups")
def groups(*, topic: OneTopic = None, of: OfEndpoint) -> None:
    r"""List consumer groups with their state, members and total lag.

    LAG is the sum over all topics of the group; ehkafka lag shows it for each partition. The command joins
    no group and changes nothing.

    Event Hubs does not list idle groups, and some brokers list no groups. To see a group whose name you
    know, run ehkafka lag TOPIC --group GROUP.

    \b
    Examples:
      ehkafka groups --endpoint localhost:9092
      ehkafka groups --topic orders --json        only groups with commits on the topic orders

    """
    found: list[GroupView] = []
    with cluster_of(topic, of) as cluster, progress_of("Asking", None, "groups") as report:
        for group in cluster.groups():
            found.append(group)
            report(len(found))
    if of.as_json:
        put_json({"endpoint": cluster.target.endpoint.name, "groups": [_as_dict(one) for one in found]})
        return
    rows = [
        (one.name, one.state, one.members, one.lag, names(one.lags) or None, one.problem) for one in found
    ]
    put_text(f"{columns(HEADERS, rows)}\n\n{counted(len(found), 'group')}")


def _as_dict(group: GroupView) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "members": group.members,
        "lag": group.lag,
        "topics": [{"topic": topic, "lag": lag} for topic, lag in group.lags.items()],
        "problem": group.problem or None,
    }
