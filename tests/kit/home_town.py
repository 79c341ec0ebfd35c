"""A small town through the home-security pipeline while its engine is killed, and what its homes must show.

What must be shown is computed from the topic's records, by code that shares nothing with the pipeline: no
rows, no windows' sums, no table. Called by tests on their thread.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import secrets
import time
from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from home_pipeline import check, show
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.keeper import SIMULATOR, Keeper
from home_pipeline.stage import Stage

from ehkafka.testing import EmbeddedBroker
from tests.kit import home_screen
from tests.kit.faults.network import Network
from tests.kit.faults.tcp_proxy import TcpProxy
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.kit.azurite import Azurite

TOPIC = "readings"
PARTITIONS = 16
WINDOW_S = 10
SILENT_S = 20
HOMES, RATE = 1_500, 600
READ_S = 10.0
TOLERANCE_US = 5_000_000


class Heard(NamedTuple):
    """A reading that counts; its value and alarm as its record has them."""

    home: str
    kind: str
    at_us: int
    value: float
    is_alarm: bool


class Shown(NamedTuple):
    """What the page answered, and the records of the topic."""

    overview: dict[str, Any]
    homes: dict[str, dict[str, Any]]
    said: list[Heard]
    spoilt: int


def run_killed(
    engine: str,
    azurite: Azurite,
    folder: Path,
    patch: pytest.MonkeyPatch,
    *,
    kills: int,
    closing_s: int,
    within_s: float,
) -> Shown:
    """Run a town, kill its engine so often in the middle of a window, and ask the page for 100 homes.

    Then the store is away for a moment, which the page must say.
    """
    with ExitStack() as undo:
        proxy = undo.enter_context(TcpProxy(azurite.address))
        patch.setenv(STORAGE, azurite.connection_string(proxy.address))
        patch.setenv(CONTAINER, f"town-{secrets.token_hex(6)}")
        create_container(undo.enter_context(open_container()))
        broker = undo.enter_context(EmbeddedBroker({TOPIC: PARTITIONS, "alerts": 4}))
        options = argparse.Namespace(window_s=WINDOW_S)
        stage = Stage(folder, show.environment(options, broker.bootstrap, folder))
        undo.callback(stage.stop_all)
        address = home_screen.serve(stage, None, "--silent-s", str(SILENT_S), "--folder", str(folder))
        stage.start("engine", f"{engine}_engine")
        where = ["--bootstrap", broker.bootstrap, "--ledger", str(folder / "ledger.json")]
        town = ["--homes", str(HOMES), "--rate", str(RATE), "--closing-s", str(closing_s)]
        stage.start(SIMULATOR, "simulate", *where, *town, "--new-sensor-after-s", "5")
        keeper = Keeper(stage, folder, engine)

        def check_parts() -> None:
            time.sleep(0.2)
            assert keeper.check(), [*stage.failed()]

        def readings() -> int:
            try:
                return int(check.ask(address, "/api/overview")["readings"])
            except OSError:
                return 0

        def problem() -> str:
            return check.ask(address, "/api/overview")["problem"] or ""

        def counts(least: int) -> None:
            wait_until(
                lambda: readings() >= least,
                lambda: f"{readings()} of {least} readings",
                within_s,
                meanwhile=check_parts,
            )

        counts(10 * RATE)
        for _ in range(kills):
            wait_until(lambda: 0.3 < time.time() / WINDOW_S % 1 < 0.6, "mid-window", meanwhile=check_parts)
            stage.parts["engine"].kill()
            stage.parts["engine"].wait()
            counts(readings() + 10 * RATE)
        proxy.network = Network(refuse=True)
        proxy.cut()
        wait_until(lambda: "cannot be read since" in problem(), "the page's words", meanwhile=check_parts)
        proxy.heal()
        wait_until(lambda: not problem(), problem, meanwhile=check_parts)
        assert stage.stop(SIMULATOR) == 0
        said, spoilt = of_topic(broker.bootstrap)
        # Spark has not written the window of the last reading, which only moves time on.
        wanted = len(said) - (engine == "spark")
        wait_until(
            lambda: readings() >= wanted, lambda: f"{readings()} of {wanted}", within_s, meanwhile=check_parts
        )
        draw = random.Random(46)
        names = [f"home-{number:06d}" for number in draw.sample(range(HOMES), 100)]
        overview = check.ask(address, "/api/overview")
        homes = {name: check.ask(address, f"/api/home/{name}") for name in names}
        assert json.loads((folder / "status.json").read_text())["restarts"] >= kills
        return Shown(overview, homes, said, spoilt)


def of_topic(bootstrap: str) -> tuple[list[Heard], int]:
    """Return the readings in the topic that count, and how many records must not."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    said: list[Heard] = []
    spoilt = 0
    try:
        places = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
        left = sum(reader.get_watermark_offsets(place, timeout=READ_S)[1] for place in places)
        reader.assign(places)
        while left:
            found = reader.consume(min(left, 1_000), READ_S)
            assert found, f"{left} records of the topic were not read"
            left -= len(found)
            for message in found:
                one = read(message.value() or b"", message.timestamp()[1])
                said += [one] if one else []
                spoilt += one is None
    finally:
        reader.close()
    return said, spoilt


def read(value: bytes, timestamp_ms: int) -> Heard | None:
    """Return what a record says, None if it must not be counted: of what this simulator sends."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    if (
        not re.fullmatch(r"home-\d{6}", found["home"])
        or abs(found["at"] - timestamp_ms * 1000) > TOLERANCE_US
    ):
        return None
    return Heard(found["home"], found["kind"], found["at"], found["value"], found["alarm"])


def unlike(shown: Shown) -> list[str]:
    """Return, in words, each number of the page that the topic's records do not make."""
    as_of_us = round(shown.overview["as_of_s"] * 1e6)
    said = [one for one in shown.said if one.at_us <= as_of_us]
    homes: dict[str, list[Heard]] = defaultdict(list)
    for one in said:
        homes[one.home].append(one)
    found = _unlike("all homes", _of_all(shown.overview), _wanted_of_all(said, shown.spoilt, as_of_us))
    for name, answer in shown.homes.items():
        found += _unlike(name, of_home(answer), wanted_of_home(homes[name], as_of_us))
    return found


def _unlike(name: str, shown: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [
        f"{name}, {what}: the page has {shown.get(what)}, the topic {wanted.get(what)}"
        for what in sorted({*shown, *wanted})
        if shown.get(what) != wanted.get(what)
    ]


def _of_all(overview: dict[str, Any]) -> dict[str, Any]:
    counts = {kind["kind"]: sum(kind["readings"]) for kind in overview["kinds"]}
    return counts | {"all": overview["readings"], "spoilt": overview["spoilt"]["count"]}


def _wanted_of_all(said: list[Heard], spoilt: int, as_of_us: int) -> dict[str, Any]:
    assert as_of_us == max(one.at_us for one in said)
    counts: dict[str, Any] = defaultdict(int)
    for one in said:
        counts[one.kind] += 1
    return {**counts, "all": len(said), "spoilt": spoilt}


def of_home(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what the page says of a home, by what it says it of."""
    names = ("count", "alarms", "total", "lowest", "highest", "value", "last_at_s", "is_silent", "is_switch")
    shown = {f"{one['kind']} {name}": one[name] for one in answer["sensors"] for name in names}
    shown |= {
        f"{one['kind']} since": (one["since_s"], one["since_is_earliest"])
        for one in answer["sensors"]
        if one["is_switch"]
    }
    alarms = [(one["kind"], one["at_s"], one["alarms"], one["high"]) for one in answer["alarms"]]
    return shown | {"state": answer["state"], "alarms": alarms, "open alarms": answer["open_alarms"]}


def wanted_of_home(said: list[Heard], as_of_us: int) -> dict[str, Any]:
    """Return what the page must say of a home, given its readings."""
    kinds: dict[str, list[Heard]] = defaultdict(list)
    windows: dict[tuple[str, int], list[Heard]] = defaultdict(list)
    for one in sorted(said, key=lambda one: (one.at_us, one.value)):
        kinds[one.kind].append(one)
        windows[one.kind, one.at_us // 1_000_000 // WINDOW_S].append(one)
    wanted: dict[str, Any] = {}
    for kind, all_of_it in kinds.items():
        wanted |= {f"{kind} {name}": value for name, value in _wanted_of_sensor(kind, all_of_it, as_of_us)}
    alarms = []
    for (kind, _window), found in windows.items():
        alarming = [one.at_us for one in found if one.is_alarm]
        if alarming:
            alarms.append((kind, max(alarming) / 1e6, len(alarming), max(one.value for one in found)))
    alarms.sort(key=lambda alarm: (-alarm[1], alarm[0]))
    is_open = any(
        kind.startswith(("door_", "window_")) and found[-1].value == 1 and not wanted[f"{kind} is_silent"]
        for kind, found in kinds.items()
    )
    is_silent = any(wanted[f"{kind} is_silent"] for kind in kinds)
    state = "alarm" if alarms else "open" if is_open else "silent" if is_silent else "quiet"
    return wanted | {"state": state if kinds else "unknown", "alarms": alarms, "open alarms": len(alarms)}


def _wanted_of_sensor(kind: str, said: list[Heard], as_of_us: int) -> list[tuple[str, Any]]:
    values = [one.value for one in said]
    last = said[-1]
    is_switch = kind == "motion" or kind.startswith(("door_", "window_", "glass_"))
    wanted: list[tuple[str, Any]] = [
        ("count", len(said)),
        ("alarms", sum(one.is_alarm for one in said)),
        ("total", sum(values)),
        ("lowest", min(values)),
        ("highest", max(values)),
        ("value", last.value),
        ("last_at_s", last.at_us / 1e6),
        ("is_silent", last.at_us < as_of_us - SILENT_S * 1_000_000),
        ("is_switch", is_switch),
    ]
    if is_switch:
        others = [number for number, value in enumerate(values) if value != last.value]
        first = said[others[-1] + 1] if others else said[0]
        wanted.append(("since", (first.at_us // 60_000_000 * 60, not others)))
    return wanted
