"""What `ehkafka offsets` does: looks, previews, moves with --yes, and shows what is there afterwards.

On the main thread. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from ehkafka.checks import LastRecords
from ehkafka.cli.check_target import chosen_target
from ehkafka.cli.offsets import text
from ehkafka.cli.offsets.output import put_json, put_text
from ehkafka.cli.tail import notice
from ehkafka.cli.tail_from import parse_from
from ehkafka.errors import ConfigurationError, OffsetGapError
from ehkafka.offsets import GroupOffsets, LagReport, move
from ehkafka.offsets.checkpoints import (
    ExportPlace,
    compared,
    exports,
    running_owners,
    wanted_positions,
    write_exports,
)
from ehkafka.offsets.compare import compare
from ehkafka.offsets.plan import NO_PARTITION, planned
from ehkafka.offsets.source import (
    WRITTEN,
    Format,
    Wanted,
    choose,
    mirrored_positions,
    namespace_of_target,
    open_source,
    read_store,
)
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ehkafka.cli.offsets.commands import Applying, Checkpoints, Moving
    from ehkafka.cli.option_groups import OfGroup
    from ehkafka.offsets import PartitionView, Plan
    from ehkafka.offsets.source import CheckpointStore

_OF_PARTITION = re.compile(r"(?P<partition>\d{1,9})=(?P<place>.+)", re.ASCII)


def group_offsets(topic: str, of: OfGroup) -> GroupOffsets:
    """Return the group on the topic that the options mean. Raises `ConfigurationError`."""
    target = chosen_target(of.app, of.endpoint, group=of.group, topics=[topic], config=of.config)
    return GroupOffsets(target, topic, timeout_s=of.timeout_s)


def wanted_checkpoints(topic: str, of: Checkpoints) -> tuple[CheckpointStore, Wanted]:
    """Return where checkpoints lie and whose the options mean. Raises `ConfigurationError`."""
    wanted = Wanted(
        hub=of.from_hub or topic,
        namespace=of.from_namespace,
        group=of.from_group,
        format=None if of.form is None else _format(of.form, tuple(Format)),
        prefix=of.prefix,
    )
    return open_source(of.source, credential=of.credential, client_id=of.client_id), wanted


def export_place(
    there: GroupOffsets, form: str, namespace: str | None, group: str, prefix: str
) -> ExportPlace:
    """Return under which names to write. Raises `ConfigurationError`."""
    return ExportPlace(
        form=_format(form, WRITTEN),
        namespace=namespace or namespace_of_target(there.target),
        hub=there.topic,
        group=group,
        prefix=prefix,
    )


def show(group: GroupOffsets, *, as_json: bool) -> None:
    """Print where the group stands."""
    with group:
        report = LagReport.of(group.views())
    if as_json:
        put_json({**_place(group), **text.report_as_dict(report)})
    else:
        hint = "" if report.has_commits else f"\n\n{group.without_commits}"
        put_text(f"{group.where}\n\n{text.report_as_text(report)}{hint}")


def reset(group: GroupOffsets, places: Sequence[str], moving: Moving, *, as_json: bool) -> None:
    """Move the group to positions that a person gave."""
    only = moving.partition or ()
    chosen = _places(places, only)
    with group:
        views = group.views()
        named = {*only, *(n for n in chosen if n is not None)}
        refused = {n: NO_PARTITION for n in named if n not in views}
        wanted = _wanted(group, views, chosen, only)
        plan = planned(views, wanted, clamp=moving.clamp, refused=refused, anew=True)
        carry_out(group, plan, moving, as_json=as_json, headline=group.where)


def import_checkpoints(
    group: GroupOffsets, store: CheckpointStore, wanted: Wanted, moving: Moving, *, as_json: bool
) -> None:
    """Move the group to what checkpoints say."""
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
                f"the names of these blobs do not say which hub they belong to: make sure it is {wanted.hub}."
            )
        headline = f"{group.where}\nfrom {origin} in {store.name}"
        carry_out(group, plan, moving, as_json=as_json, headline=headline)


def export_checkpoints(
    group: GroupOffsets,
    store: CheckpointStore,
    place: ExportPlace,
    only: Collection[int],
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Write the group's commits as checkpoints of other clients."""
    with group:
        views = group.views()
    missing = sorted(set(only) - set(views))
    if missing:
        numbers = ", ".join(map(str, missing))
        raise OffsetGapError(f"{group.where}: the topic has no partition {numbers}. Nothing was written.")
    found = compared(exports(views, place, only=only), store)
    if any(one.version is not None for one in found):
        _report_owners(store, place.namespace, place.hub, place.group)
    back = write_exports(found, store) if yes else None
    if as_json:
        checkpoints = text.exports_as_dict(found, back)
        put_json({**_place(group), "dry_run": not yes, "checkpoints": checkpoints})
        return
    put_text(f"{group.where}\nto {store.name}, as {place.form}\n\n{text.exports_as_text(found, back)}")
    written = "they were written" if yes else "they would be written"
    notice(
        f"{written} without the SDK's own offset, which Kafka does not know: .NET's current SDK and Functions"
        " extension read these (KEDA the sdk form), the SDKs of Python, JavaScript, Java and Go do not."
    )
    put_text(f"\n{'Written and read back.' if yes else 'Nothing was written. Add --yes to do it.'}")


def diff(group: GroupOffsets, store: CheckpointStore, wanted: Wanted, *, as_json: bool) -> None:
    """Print what group, mirror and the SDK say of each partition."""
    found = list(read_store(store, wanted.prefix))
    mirror = mirrored_positions(group.target, group.topic, group.group, found)
    others = [one for one in found if one.origin.format.value != "ehkafka"]
    chosen = choose(others, wanted, store.name) if others else None
    with group:
        rows = compare(group.views(), mirror, chosen.positions if chosen else {})
    if as_json:
        put_json(
            {**_place(group), "sdk": chosen and str(chosen.origin), "partitions": text.compared_as_dict(rows)}
        )
        return
    of = f", SDK: {chosen.origin}" if chosen else ", no checkpoints of an SDK"
    differing = sum(row.differs for row in rows)
    put_text(f"{group.where}\nin {store.name}{of}\n\n{text.compared_as_text(rows)}")
    put_text(
        f"{differing} of {counted(len(rows), 'partition')} differ"
        if differing
        else "all that is there agrees"
    )


def carry_out(
    group: GroupOffsets,
    plan: Plan,
    applying: Applying,
    *,
    as_json: bool,
    headline: str,
    before: Mapping[int, tuple[int | None, str]] | None = None,
) -> None:
    """Show a plan; move the group where that is wanted, and show where it stands then."""
    shown: dict[str, Any] = {**_place(group), "dry_run": not applying.yes, "moves": text.plan_as_dict(plan)}
    if not as_json:
        put_text(f"{headline}\n\n{text.plan_as_text(plan)}\n")
    if plan.refused and as_json:
        put_json(shown)
    if applying.yes or plan.refused:
        # A plan with refused moves is refused in a preview, too: its exit code should tell.
        after = LagReport.of(move(group, plan, before=before, watch_s=applying.watch_s, report=notice))
        shown |= {"after": text.report_as_dict(after)}
        if not as_json:
            count = f"Committed {len(plan.positions)} of {counted(len(plan.moves), 'partition')}."
            words = count if plan.positions else "There was nothing to move."
            put_text(f"{words} The group stands here, as read back:\n\n{text.report_as_text(after)}")
    elif not as_json:
        last = "Add --yes to do it." if plan.positions else "There is nothing to move."
        put_text(f"Nothing was moved. {last}")
    if as_json:
        put_json(shown)


def _report_owners(store: CheckpointStore, namespace: str, hub: str, group: str) -> None:
    owned = running_owners(store, namespace, hub, group, int(time.time() * 1000))
    if owned:
        numbers = f"partition{'s' * (len(owned) > 1)} {', '.join(map(str, owned))}"
        notice(
            f"consumers of {namespace}/{hub}/{group} still own {numbers} and will keep moving"
            " their checkpoints: stop them before anything is moved, else both handle events."
        )


def _format(name: str, among: Sequence[Format]) -> Format:
    if name not in set(among):
        raise ConfigurationError(f"--format {name!r} is none of {', '.join(among)}.")
    return Format(name)


def _places(texts: Sequence[str], only: Collection[int]) -> dict[int | None, Any]:
    """Return places by partition; None stands for all that are not named."""
    places: dict[int | None, Any] = {}
    for given in texts:
        named = _OF_PARTITION.fullmatch(given)
        partition = int(named["partition"]) if named else None
        if partition in places:
            raise ConfigurationError(
                f"--to is given twice for {'all' if partition is None else partition}: leave one out."
            )
        if only and partition is not None and partition not in only:
            raise ConfigurationError(
                f"--to names partition {partition}, which is not among --partition: leave one of them out."
            )
        places[partition] = parse_from(named["place"] if named else given, option="--to")
    return places


def _wanted(
    group: GroupOffsets,
    views: Mapping[int, PartitionView],
    places: Mapping[int | None, Any],
    only: Collection[int],
) -> dict[int, int]:
    wanted: dict[int, int] = {}
    for partition, place in places.items():
        others = [n for n in views if n not in places and (not only or n in only)]
        numbers = others if partition is None else [partition] if partition in views else []
        if isinstance(place, LastRecords):
            wanted |= {n: max(views[n].log.start, views[n].log.end - place.count) for n in numbers}
        elif numbers:
            wanted |= group.offsets_at(place, numbers)
    return wanted


def _place(group: GroupOffsets) -> dict[str, Any]:
    return {"endpoint": group.target.endpoint.name, "topic": group.topic, "group": group.group}
