"""What a process loads: an app that is made loads no engine, one that runs only what it was asked for.

Modules are counted instead of seconds. A module that is needed early leaves a list here, with a reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.broker import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

MAKE = """
import json, sys
before = set(sys.modules)
import ehkafka
app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka({address!r}), start="earliest", **{settings!r})
@app.handler("t")
def handle(record: ehkafka.Record) -> None: ...
"""
LIST_MODULES = """
print(json.dumps(sorted(set(sys.modules) - before)))
"""
# Idle with its partitions. What it has for itself are the pages that no other process shares.
RUN = """
import pathlib, threading
assigned = threading.Event()
app.on_assigned(lambda partition: assigned.set())
with app:
    assert assigned.wait(60)
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    own = [line.split() for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))]
    memory_kib = sum(int(words[1]) for words in own)
    print(json.dumps([memory_kib, sorted(set(sys.modules) - before)]))
"""
# Of the standard library, what only the engine, another kind of endpoint or of worker needs.
NO_STANDARD = (
    "asyncio",
    "concurrent",
    "ctypes",
    "email",
    "http",
    "logging",
    "multiprocessing",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "unittest",
    "urllib.request",
)
NO_THIRD_PARTY = ("azure", "confluent_kafka", "pyarrow", "pydantic", "pyspark", "pytest", "rich", "typer")
NO_ROOMS = (
    "aio",
    "arrow",
    "checkpoints",
    "checks",
    "cli",
    "consumer",
    "embedded",
    "endpoint.client",
    "endpoint.entra",
    "events",
    "intake",
    "offsets",
    "progress",
    "ranges",
    "redrive",
    "run.runtime",
    "spark",
    "telemetry",
    "testing",
    "workers.hub",
)
# 152 with Python 3.11, 156 with 3.13; it was 452, a quarter of them confluent-kafka's.
MODULES_MAX = 156
# Of an app that runs: not the other kinds of workers, nor what it was not asked for.
NOT_TO_RUN = (
    "azure",
    "ehkafka.arrow",
    "ehkafka.checkpoints",
    "ehkafka.checks",
    "ehkafka.cli",
    "ehkafka.consumer",
    "ehkafka.embedded",
    "ehkafka.endpoint.entra",
    "ehkafka.metrics",
    "ehkafka.offsets",
    "ehkafka.otel",
    "ehkafka.ranges",
    "ehkafka.redrive",
    "ehkafka.run.resetting",
    "ehkafka.spark",
    "ehkafka.telemetry.otel",
    "ehkafka.telemetry.prometheus",
    "ehkafka.testing",
    "ehkafka.workers.batches.workers",
    "ehkafka.workers.processes.child",
    "ehkafka.workers.tasks",
    "http",
    "multiprocessing",
    "opentelemetry",
    "prometheus_client",
    "unittest",
    "urllib.request",
)
# An app on plain threads has 23 MiB, a bare consumer of confluent-kafka 13; azure-identity alone takes 23.
MEMORY_KIB_MAX = 45 * 1024


def ran(program: str) -> Any:
    """Run a program in a fresh interpreter; return what it printed."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def loaded(modules: list[str], forbidden: tuple[str, ...]) -> list[str]:
    """Return what was loaded of the forbidden packages."""
    return [name for name in modules if f"{name}.".startswith(tuple(f"{one}." for one in forbidden))]


def test_an_app_that_is_made_loads_no_engine_and_no_client() -> None:
    """Commands, tests and worker processes import programs whose app they never start."""
    modules = ran(MAKE.format(address="localhost:9092", settings={}) + LIST_MODULES)
    forbidden = (*NO_STANDARD, *NO_THIRD_PARTY, *(f"ehkafka.{room}" for room in NO_ROOMS))
    assert loaded(modules, forbidden) == []
    assert len(modules) <= MODULES_MAX, modules


@pytest.mark.parametrize(
    ("make", "part"),
    [
        ("ehkafka.Endpoint.entra('home')", "ehkafka.endpoint.entra.entra"),
        ("app.batch_handler('b')(lambda batch: None)", "ehkafka.handlers.batch"),
        ("app.configuration()", "ehkafka.app.effective"),
    ],
)
def test_what_is_asked_for_is_loaded_then(make: str, part: str) -> None:
    """And brings no third party's SDK: that is opened with the connection."""
    modules = ran(MAKE.format(address="localhost:9092", settings={}) + make + LIST_MODULES)
    assert part in modules
    assert loaded(modules, ("azure", "multiprocessing")) == []


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Return a broker of this process."""
    with EmbeddedBroker({"t": 16}) as broker:
        yield broker


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells what is shared")
def test_an_idle_member_loads_and_keeps_little(broker: EmbeddedBroker) -> None:
    """Several members on one machine share what is not their own; the rest is what each of them costs."""
    consumer = {name: value for name, value in broker.consumer_properties.items() if "servers" not in name}
    program = MAKE.format(address=broker.bootstrap, settings={"consumer": consumer}) + RUN
    memory_kib, modules = ran(program)
    assert loaded(modules, NOT_TO_RUN) == []
    assert memory_kib <= MEMORY_KIB_MAX


# Third parties, and rooms of ours: `--version` waits for no engine, `run` for no table.
NOT_FOR_COMMANDS = {
    "commands": "confluent_kafka pydantic_settings rich",
    "run": "rich textual watchfiles pyspark",
}
NO_ROOMS_FOR_COMMANDS = {
    "commands": "app endpoint events run checks spark testing cli.settings",
    "run": "offsets redrive spark cli.output",
}


@pytest.mark.parametrize("module", NOT_FOR_COMMANDS)
def test_a_command_loads_what_it_needs(module: str) -> None:
    """Nothing of other commands, nor what is only for a terminal."""
    program = f"import json, sys; before = set(sys.modules)\nimport ehkafka.cli.{module}" + LIST_MODULES
    rooms = [f"ehkafka.{room}" for room in NO_ROOMS_FOR_COMMANDS[module].split()]
    assert loaded(ran(program), (*NOT_FOR_COMMANDS[module].split(), *rooms)) == []


# Ours that Spark's planning process loads at each start of a query: 134 of them took 0.17 s of its CPU.
PLANNING = """
import json, sys
before = set(sys.modules)
import ehkafka.ranges.log, ehkafka.spark.source.options, ehkafka.spark.source.stream
"""
# A task's records: keys, headers and a timestamp that is too large among them.
READING = """
import json, sys
from confluent_kafka import Message
from ehkafka.ranges.batches import TYPES, record_batches
from ehkafka.ranges.places import Piece
before = set()
def message(offset, milliseconds, headers):
    given = dict(topic="t", partition=0, key=b"k", value=b"v", headers=headers)
    return Message(offset=offset, timestamp=(1, milliseconds), **given)
records = [message(0, 1, None), message(2, 2**63 - 1, [("a", b"1")])]
(batch,) = record_batches(tuple(TYPES), [(Piece("t", 0, 0, 3), records)])
batch.validate(full=True)
"""
NOT_TO_PLAN = (
    "checkpoints checks.network checks.run events intake offsets run spark.jvm_options spark.observing"
    " spark.starting telemetry workers.hub"
)
PLANNING_MODULES_MAX = 94


def test_planning_loads_what_asks_the_broker() -> None:
    """Neither the events of an app nor the probes of a check."""
    modules = ran(PLANNING + LIST_MODULES)
    assert loaded(modules, tuple(f"ehkafka.{one}" for one in NOT_TO_PLAN.split())) == []
    assert len(loaded(modules, ("ehkafka",))) <= PLANNING_MODULES_MAX, modules


def test_a_task_that_reads_loads_no_pandas() -> None:
    """Neither does Spark's worker: it would take a third of a second of each one's first task."""
    pytest.importorskip("pyarrow")
    assert loaded(ran(READING + LIST_MODULES), ("pandas",)) == []
