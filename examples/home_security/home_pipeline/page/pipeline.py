"""What the operator sees of the pipeline itself: its engine, lag and holders, and what may be asked of it.

The engine's state is what the demo writes into its folder (`status.json`), wishes go the same way back
(`wishes.json`). Lag and holders come from the broker, which a thread of its own asks; each figure has its
age. Away from the demo, or without a broker's address, the answer says what is not known.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import ehkafka
from ehkafka.checks.target import Target
from ehkafka.errors import EhkafkaError
from ehkafka.offsets import GroupOffsets
from ehkafka.offsets.members import members_of
from home_pipeline.local_engine import GROUP
from home_pipeline.readings import TOPIC
from home_pipeline.stage import STATUS, WISHES, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

EVERY_S = 5.0
ASK_S = 5.0
UNKNOWN = {"engine": "unknown", "state": "unknown", "since_s": None, "step": None, "restarts": 0}
NO_BROKER = "Lag and holders are unknown: set HOME_SECURITY_BOOTSTRAP to the broker's address."
ONLY_DEMO = "Only scripts/home_security, which starts all parts, can do this."
DONE = {
    "second": "The second process starts: it takes over half of the partitions.",
    "sell": "Carbon monoxide sensors are sold from now on: their kind appears with their first readings.",
}


class RefusedError(Exception):
    """A wish that cannot be fulfilled now, and why."""


class Asked(NamedTuple):
    """What the broker answered: lag by partition, who holds which (None: it does not say), when."""

    lags: dict[int, int]
    members: dict[int, str] | None
    at_s: float | None
    problem: str | None


class Pipeline:
    """Looks at the pipeline for the page. `start` and `stop` its thread."""

    def __init__(self, folder: Path | None, bootstrap: str | None) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._wishing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lag", daemon=True)
        # Written by the thread, read by the page's: one reference.
        self._asked = Asked({}, None, None, None if bootstrap else NO_BROKER)

    def start(self) -> None:
        """Begin to ask the broker, if there is one."""
        if self._bootstrap:
            self._thread.start()

    def stop(self) -> None:
        """End; an answer that is awaited is not waited for longer than `ASK_S`."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2 * ASK_S)

    def answer(self) -> dict[str, Any]:
        """Return what the page's panel shows."""
        asked, status = self._asked, self._read(STATUS)
        holders = asked.members if asked.members is not None else _holders(status)
        return {name: status.get(name, unknown) for name, unknown in UNKNOWN.items()} | {
            "lag": sum(asked.lags.values()) if asked.lags else None,
            "lag_at_s": asked.at_s,
            "partitions": [
                {"partition": number, "member": holders.get(number), "lag": lag}
                for number, lag in sorted(asked.lags.items())
            ],
            "problem": asked.problem,
            "actions": {
                what: {"can": why is None, "why": why}
                for what in DONE
                for why in [self._refusal(what, status)]
            },
        }

    def wish(self, what: str) -> str:
        """Ask the demo for something; return what will be seen of it. Raises `RefusedError`."""
        why = self._refusal(what, self._read(STATUS))
        if why is not None or self._folder is None:
            raise RefusedError(why)
        with self._wishing:
            replace_file(self._folder / WISHES, self._read(WISHES) | {what: time.time()})
        return DONE[what]

    def _refusal(self, what: str, status: Mapping[str, Any]) -> str | None:
        if not status:
            return ONLY_DEMO
        if what == "second" and status["engine"] == "spark":
            return "Spark shares the partitions among its own tasks: start with --engine local for this."
        if what in status["done"] or what in self._read(WISHES):
            return "The second process has been started." if what == "second" else "It is being sold already."
        return None

    def _read(self, name: str) -> dict[str, Any]:
        if self._folder is None or not (self._folder / name).exists():
            return {}
        found: dict[str, Any] = json.loads((self._folder / name).read_text())
        return found

    def _run(self) -> None:
        target = Target(endpoint=ehkafka.Endpoint.kafka(str(self._bootstrap)), group=GROUP)
        while not self._stop.is_set():
            try:
                with GroupOffsets(target, TOPIC, timeout_s=ASK_S) as group:
                    while not self._stop.is_set():
                        self._asked = self._look(group)
                        self._stop.wait(EVERY_S)
            except EhkafkaError as error:
                self._asked = self._asked._replace(problem=f"The lag is not known now: {error}")
                self._stop.wait(EVERY_S)

    def _look(self, group: GroupOffsets) -> Asked:
        lags = {number: view.lag for number, view in group.views().items()}
        members = members_of(group.target, GROUP, TOPIC, ASK_S)
        # None: it does not say. None at all: what commits from outside of the group, as Spark does.
        names = {number: one.name for one in members for number in one.partitions} if members else None
        return Asked(lags, names, time.time(), None)


def _holders(status: Mapping[str, Any]) -> dict[int, str]:
    members: dict[str, list[int]] = status.get("members", {})
    return {number: name for name, numbers in members.items() for number in numbers}
