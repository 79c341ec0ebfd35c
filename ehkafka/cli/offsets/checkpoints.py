"""`ehkafka offsets import`, `export` and `diff`: a group's offsets and other clients' checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ehkafka.cli.lag import place_of, view_as_dict
from ehkafka.cli.offsets.plans import Moving, carry_out, cli
from ehkafka.cli.options import ClientId, Credential, OfGroup, Partition, Topic, Yes
from ehkafka.cli.output import columns, notice, put_json, put_text
from ehkafka.cli.target import group_offsets
from ehkafka.errors import ConfigurationError, OffsetGapError
from ehkafka.offsets.checkpoints import (
    ExportPlace,
    compared,
    exports,
    running_owners,
    wanted_positions,
    write_exports,
)
from ehkafka.offsets.compare import compare
from ehkafka.offsets.plan import planned
from ehkafka.offsets.source import (
    WRITTEN,
    CheckpointFilter,
    Format,
    choose,
    mirrored_positions,
    namespace_of_target,
    open_source,
    read_store,
)
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.offsets import GroupOffsets
    from ehkafka.offsets.checkpoints import Export
    from ehkafka.offsets.compare import Compared
    from ehkafka.offsets.source import CheckpointStore


_WITHOUT_OFFSET = (
    "without the SDK's own offset, which Kafka does not know: .NET's current SDK and Functions extension read"
    " these (KEDA the sdk form), the SDKs of Python, JavaScript, Java and Go do not."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """Where another client's checkpoints lie, and which are meant."""

    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="Where the checkpoints are: a container's name or URL, a folder, or a list of blobs.",
        ),
    ]
    credential: Credential = None
    client_id: ClientId = None
    from_namespace: Annotated[
        str | None,
        typer.Option("--from-namespace", metavar="NAME", help="The namespace of the checkpoints."),
    ] = None
    from_hub: Annotated[
        str | None,
        typer.Option(
            "--from-hub", metavar="NAME", help="The event hub of the checkpoints. Default: the topic."
        ),
    ] = None
    from_group: Annotated[
        str | None,
        typer.Option(
            "--from-group", metavar="NAME", help="The consumer group of the checkpoints, such as $Default."
        ),
    ] = None
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="The format of the checkpoints: sdk, eph, functions, eph-python, go, dapr or ehkafka. "
            "Default: any.",
        ),
    ] = None
    prefix: Annotated[
        str,
        typer.Option("--prefix", metavar="TEXT", help="Read only blobs whose name begins with this text."),
    ] = ""

    def opened(self, topic: str) -> tuple[CheckpointStore, CheckpointFilter]:
        """Return where checkpoints lie and whose the options mean. Raises `ConfigurationError`."""
        wanted = CheckpointFilter(
            hub=self.from_hub or topic,
            namespace=self.from_namespace,
            group=self.from_group,
            format=None if self.form is None else _format(self.form, tuple(Format)),
            prefix=self.prefix,
        )
        return open_source(self.source, self.credential, self.client_id), wanted


@cli.command("import")
def import_checkpoints(topic: Topic, *, checkpoints: Checkpoints, moving: Moving, of: OfGroup) -> None:
    r"""Move a group to the checkpoints of another client (its sequence number + 1).

    Stop the consumers of the other client and of the group first. Without --yes the command only shows a
    preview. It reads the checkpoints of the current Azure SDKs (.NET, Python, JavaScript, Java, Go), of
    EventProcessorHost (.NET and Python 1.x), Azure Functions, the Go SDK before 1.0, Dapr, and ehkafka's own
    mirror.

    \b
    Examples:
      ehkafka offsets import readings --group shop --from checkpoints                 a container; a preview
      ehkafka offsets import readings --group shop --from checkpoints --yes
      ehkafka offsets import readings --group shop --from https://me.blob.core.windows.net/checkpoints
      ehkafka offsets import readings --group shop --from ./copied --from-group '$Default'

    \b
    Environment:
      EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE: the storage account, if
      --from is the name of a container. For the URL of a container, ehkafka signs in with Entra ID: see
      --credential.

    """
    store, wanted = checkpoints.opened(topic)
    group = group_offsets(topic, of)
    chosen = choose(read_store(store, wanted.prefix), wanted, store.name)
    with group:
        views = group.views()
        found = wanted_positions(chosen, views, moving.partition or ())
        found.refuse_other_logs(group.other_logs(found.to_verify(chosen, views)))
        plan = planned(views, found.positions, clamp=moving.clamp, notes=found.notes, refused=found.refused)
        origin = chosen.origin
        if origin.namespace and origin.hub and origin.group:
            _report_owners(store, origin.namespace, origin.hub, origin.group)
        if origin.hub is None and origin.format is not Format.DAPR:
            notice(
                f"the names of these blobs do not contain an event hub: make sure that they belong to "
                f"{wanted.hub}."
            )
        headline = f"{group.where}\nfrom {origin} in {store.name}"
        carry_out(group, plan, moving, as_json=of.as_json, headline=headline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where checkpoints are written to, and as whose."""

    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="PLACE",
            help="Where to write the checkpoints: a container's name or URL, or a folder.",
        ),
    ]
    form: Annotated[
        str, typer.Option("--format", metavar="NAME", help="The format to write: sdk, eph or functions.")
    ] = "sdk"
    credential: Credential = None
    client_id: ClientId = None
    to_namespace: Annotated[
        str | None,
        typer.Option(
            "--to-namespace",
            metavar="HOST",
            help="The namespace to write. Default: the namespace of the mirror, else the endpoint's host.",
        ),
    ] = None
    to_group: Annotated[
        str, typer.Option("--to-group", metavar="NAME", help="The consumer group to write.")
    ] = "$Default"
    prefix: Annotated[
        str,
        typer.Option(
            "--prefix",
            metavar="TEXT",
            help="With --format eph: the text before the group in the names of the blobs.",
        ),
    ] = ""

    def opened(self, group: GroupOffsets) -> tuple[CheckpointStore, ExportPlace]:
        """Return the store and whose checkpoints the group's become. Raises `ConfigurationError`."""
        place = ExportPlace(
            form=_format(self.form, WRITTEN),
            namespace=self.to_namespace or namespace_of_target(group.target),
            hub=group.topic,
            group=self.to_group,
            prefix=self.prefix,
        )
        return open_source(self.to, self.credential, self.client_id, new_folder=True), place


@cli.command("export")
def export_checkpoints(
    topic: Topic, *, destination: Destination, partition: Partition = None, yes: Yes = False, of: OfGroup
) -> None:
    r"""Write a group's offsets as checkpoints of another client.

    Without --yes it only says what it would do. Kafka does not know the SDK's own offset, so the checkpoints
    have none. .NET's current SDK and Functions extension can read them (KEDA only those of the sdk format);
    the SDKs of Python, JavaScript, Java and Go cannot.

    \b
    Examples:
      ehkafka offsets export readings --group shop --to checkpoints                    a container; a preview
      ehkafka offsets export readings --group shop --to ./copied --format eph --yes    files in a folder

    \b
    Environment:
      EHKAFKA_MIRROR_CONNECTION_STRING or EHKAFKA_MIRROR_CONNECTION_STRING_FILE, of the storage account, when
      --to is a container's name

    """
    group, only = group_offsets(topic, of), partition or ()
    store, place = destination.opened(group)
    with group:
        views = group.views()
    if missing := sorted(set(only) - set(views)):
        numbers = ", ".join(map(str, missing))
        raise OffsetGapError(
            f"{group.where}: the topic has no partition {numbers}, so nothing was "
            f"written: correct --partition."
        )
    found = compared(exports(views, place, only=only), store)
    if any(one.version is not None for one in found):
        _report_owners(store, place.namespace, place.hub, place.group)
    back = write_exports(found, store) if yes else None
    if of.as_json:
        checkpoints = exports_as_dict(found, back)
        put_json({**place_of(group), "dry_run": not yes, "checkpoints": checkpoints})
        return
    put_text(f"{group.where}\nto {store.name}, as {place.form}\n\n{exports_as_text(found, back)}")
    notice(f"they {'were' if yes else 'would be'} written {_WITHOUT_OFFSET}")
    put_text(f"\n{'Written and read back.' if yes else 'Nothing was written. Add --yes to do it.'}")


@cli.command("diff")
def diff(topic: Topic, *, checkpoints: Checkpoints, of: OfGroup) -> None:
    r"""Compare a group's offsets with its mirror and with another client's checkpoints.

    \b
    Examples:
      ehkafka offsets diff readings --group shop --from checkpoints
      ehkafka offsets diff readings --group shop --from checkpoints --json

    """
    store, wanted = checkpoints.opened(topic)
    group = group_offsets(topic, of)
    found = list(read_store(store, wanted.prefix))
    mirror = mirrored_positions(group.target, group.topic, group.group, found)
    others = [one for one in found if one.origin.format.value != "ehkafka"]
    chosen = choose(others, wanted, store.name) if others else None
    with group:
        rows = compare(group.views(), mirror, chosen.positions if chosen else {})
    if of.as_json:
        put_json(
            {**place_of(group), "sdk": chosen and str(chosen.origin), "partitions": compared_as_dict(rows)}
        )
        return
    origin = f", SDK: {chosen.origin}" if chosen else ", which has no checkpoints of an SDK"
    differing = sum(row.differs for row in rows)
    put_text(f"{group.where}\nin {store.name}{origin}\n\n{compared_as_text(rows)}")
    put_text(
        f"{differing} of {counted(len(rows), 'partition')} differ"
        if differing
        else "all that is there agrees"
    )


def _report_owners(store: CheckpointStore, namespace: str, hub: str, group: str) -> None:
    owned = running_owners(store, namespace, hub, group, int(time.time() * 1000))
    if owned:
        numbers = f"partition{'s' * (len(owned) > 1)} {', '.join(map(str, owned))}"
        notice(
            f"consumers of {namespace}/{hub}/{group} still own {numbers} and move their "
            f"checkpoints. Stop these consumers before you use --yes; otherwise the old and the new "
            f"consumers both handle the events."
        )


def _format(name: str, among: Sequence[Format]) -> Format:
    if name not in set(among):
        raise ConfigurationError(f"--format {name!r} is unknown: use one of {', '.join(among)}.")
    return Format(name)


def exports_as_text(planned: Sequence[Export], back: Mapping[int, int | None] | None = None) -> str:
    """Return which checkpoint is written where; with `back`, what was read back."""
    heads = {"partition": "PARTITION", "before": "NOW", "after": "THEN", "read_back": "READ BACK"}
    heads |= {"blob": "BLOB", "note": ""}
    if back is None:
        del heads["read_back"]
    found = [one | {"note": one["note"] or ""} for one in exports_as_dict(planned, back)]
    return columns(list(heads.values()), [[one[name] for name in heads] for one in found])


def exports_as_dict(
    planned: Sequence[Export], back: Mapping[int, int | None] | None = None
) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            "partition": one.partition,
            "before": one.before,
            "after": one.next_offset if one.written else None,
            "read_back": None if back is None else back.get(one.partition),
            "blob": one.written.name if one.written else None,
            "note": one.note or None,
        }
        for one in planned
    ]


def compared_as_text(rows: Sequence[Compared]) -> str:
    """Return group, mirror and SDK side by side."""
    table = [
        (
            row.view.partition,
            f"{row.view.log.start}–{row.view.log.end}",
            row.view.committed,
            row.mirror,
            row.other,
            row.note,
        )
        for row in rows
    ]
    return columns(("PARTITION", "LOG", "GROUP", "MIRROR", "SDK", ""), table)


def compared_as_dict(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """Return the same for JSON."""
    return [
        {
            **view_as_dict(row.view),
            "mirror": row.mirror,
            "sdk": row.other,
            "differs": row.differs,
            "note": row.note or None,
        }
        for row in rows
    ]
