"""One measurement: a side does one work, and what it and others used of the CPU meanwhile."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _bench_cpu import take_sample, usage

from peers.environments import command_of, environment_of
from peers.load import ends_of, sending
from peers.plan import PARTITIONS, Live
from peers.process import SideError, SideProcess
from peers.window import Window, WindowError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _bench_cpu import CpuSample

    from peers.catalogue import Mode, Side
    from peers.plan import Row

FIRST_RECORD_S_MAX = 40.0


@dataclass(frozen=True)
class Setting:
    """The broker that all sides use, and how long a window is."""

    broker: Any
    seconds: float
    # Replaced where a test has no environments.
    command: Callable[[Side], Sequence[str]] = command_of


def measure(setting: Setting, row: Row, side: Side, mode: Mode) -> dict[str, Any]:
    """Measure once. Raises `SideError` where the side fails."""
    started_s = time.monotonic()
    broker, name = setting.broker, uuid.uuid4().hex[:8]
    with ExitStack() as stack:
        topic, records = f"live-{name}", None
        if isinstance(row.topic, Live):
            _create_for_now(stack, broker, topic)
        else:
            topic, records = row.topic.name, row.topic.records
        options = options_of(row, mode, bootstrap=broker.bootstrap, topic=topic, group=f"peers-{name}")
        if row.work in ("output", "exactly_once"):
            options["output_topic"] = f"outputs-{name}"
            _create_for_now(stack, broker, options["output_topic"])
        window = Window(max(row.warm_s, mode.warm_s), setting.seconds, records)
        command, title = setting.command(side), f"{mode.title}, {row.name}"
        process = stack.enter_context(SideProcess(title, command, options, environment_of(side)))
        process.wait_until_ready()
        if isinstance(row.topic, Live):
            stack.enter_context(sending(broker.bootstrap, topic, row.topic))
        looks = _follow(process, window, mode.title)
        figures = window.figures()
        used = usage(
            *looks,
            measured=process.pid,
            broker=getattr(broker, "pid", None) or -1,
            records=figures["records"],
        )
        if "output_topic" in options:
            # No transaction is open then, behind which what is committed would not show.
            process.end()
            found = sum(ends_of(broker.bootstrap, options["output_topic"]))
            _check_outputs(found, window.lines[-1].handled, side.sent_share_min, mode.title)
    samples = [[round(line.at_s - window.lines[0].at_s, 3), line.handled] for line in window.lines]
    return {**figures, **used, "took_s": time.monotonic() - started_s, "samples": samples}


def options_of(row: Row, mode: Mode, **more: Any) -> dict[str, Any]:
    """Return what a side is given."""
    # The share of poison is for a side with a broker of its own, which fills it by itself.
    holds = {} if isinstance(row.topic, Live) else {"keys": row.topic.keys, "poison": row.topic.poison}
    given = {"work": row.work, "kind": mode.kind, "mode": mode.mode, "partitions": PARTITIONS, **holds}
    given |= {"workers": 1, **row.options, **more}
    if mode.workers is not None:
        given["workers"] = mode.workers
    return given


def _follow(process: SideProcess, window: Window, title: str) -> tuple[CpuSample | None, CpuSample | None]:
    """Take lines until the window ends; return what the CPUs had done at its two ends."""
    begun: CpuSample | None = None
    waits_until_s = time.monotonic() + FIRST_RECORD_S_MAX
    for line in process.lines():
        try:
            state = window.add(line)
        except WindowError as wrong:
            raise SideError(f"{title}: {wrong}.") from wrong
        if state == "begin":
            begun = take_sample()
        elif state == "end":
            return begun, take_sample()
        elif state == "waiting" and time.monotonic() > waits_until_s:
            raise SideError(f"{title}: handled no record within {FIRST_RECORD_S_MAX:g} s.")
    raise AssertionError("lines never end by themselves")


def _create_for_now(stack: ExitStack, broker: Any, topic: str) -> None:
    """Create a topic that is deleted when the measurement ends, or gigabytes would pile up."""
    broker.create_topic(topic, PARTITIONS)
    stack.callback(broker.delete_topic, topic)


def _check_outputs(found: int, handled: int, share_min: float, title: str) -> None:
    """Outputs that a side counted by the window's end are in the topic after it. Raises `SideError`."""
    if found < share_min * handled:
        raise SideError(f"{title}: counts {handled:,} outputs, and {found:,} are in the topic.")
