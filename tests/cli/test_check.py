"""`ehkafka check` as a user sees it, on the embedded broker."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from rich.console import Console
from typer.testing import CliRunner

from ehkafka.checks.result import CheckResult, Report, Status
from ehkafka.cli.check import show_end, show_line, show_row
from ehkafka.cli.commands import cli
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MARKED = re.compile(r"^[✓✗–] \w+", re.MULTILINE)
STEPS = [
    "settings", "dns", "tcp", "tls", "kafka", "auth", "topic", "partitions", "group", "offsets", "clock",
    "commit",
]  # fmt: skip


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with twelve orders in three partitions."""
    with EmbeddedBroker({"orders": 3}) as broker:
        for partition in range(3):
            broker.produce("orders", [("k", b"v")] * 4, partition=partition)
        yield broker


def check(broker: EmbeddedBroker, *arguments: str, topic: str = "orders") -> tuple[int, str]:
    """Run the command; return its exit code and what it wrote."""
    asked = ["check", "--endpoint", broker.bootstrap, "--topic", topic, "--group", "shop", "--timeout", "5"]
    ended = CliRunner().invoke(cli, [*asked, *arguments])
    return ended.exit_code, ended.output


def commit(broker: EmbeddedBroker, offsets: dict[int, int], group: str = "shop") -> None:
    """Commit as one of the group's consumers would have."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        committed = [TopicPartition("orders", number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=committed, asynchronous=False)
    finally:
        consumer.close()


def the_failure(output: str) -> str:
    """Return the one line that tells of a failure."""
    (line,) = [line for line in output.splitlines() if line.startswith("✗")]
    return line


def test_a_broker_that_is_well(broker: EmbeddedBroker) -> None:
    """One line a step, in order, and a sum; what does not apply is marked so and fails nothing."""
    commit(broker, {0: 4, 1: 3})
    code, output = check(broker)
    assert code == 0
    assert [found.split()[1] for found in MARKED.findall(output)] == STEPS
    assert "lag 1 (most: 1 on partition 1)" in output
    assert "– tls" in output
    assert "all is well" in output


def test_it_joins_nothing_and_moves_no_group(broker: EmbeddedBroker) -> None:
    """The wire shows no join, and the only commit is for the check's own group."""
    commit(broker, {0: 2})
    broker.track_requests()
    assert check(broker)[0] == 0
    assert broker.requests(ApiKey.JOIN_GROUP) == []
    assert len(broker.requests(ApiKey.OFFSET_COMMIT)) == 1
    assert broker.committed("shop", "orders") == {0: 2, 1: None, 2: None}
    assert broker.committed("ehkafka-check", "orders") == {0: 0, 1: None, 2: None}


def test_a_mirror_that_an_option_names_is_looked_at(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A folder takes one small file of the check's own; the step comes last."""
    code, output = check(broker, "--mirror", str(tmp_path))
    assert code == 0
    assert [found.split()[1] for found in MARKED.findall(output)] == [*STEPS, "mirror"]
    assert f"✓ mirror     {tmp_path} takes writes" in output
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"] == ["check"]


def test_a_mirror_that_variables_name_is_looked_at_where_no_app_is_asked(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `owners` has it; an app's own mirror, or that it has none, is the app's matter."""
    monkeypatch.setenv("EHKAFKA_MIRROR_CONTAINER", "checkpoints")
    monkeypatch.setenv("EHKAFKA_MIRROR_CONNECTION_STRING", dead_storage())
    code, output = check(broker)
    assert code == 3
    assert the_failure(output).startswith("✗ mirror")
    assert "ConnectionRefusedError" in the_failure(output)
    assert "c2VjcmV0" not in output
    (tmp_path / "without_mirror.py").write_text(
        f"import ehkafka\nhere = ehkafka.Endpoint.kafka({broker.bootstrap!r})\n"
        "app = ehkafka.App(group='shop', endpoint=here, start='earliest')\n"
        "app.handler('orders')(print)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = CliRunner().invoke(cli, ["check", "without_mirror:app", "--timeout", "5"])
    assert ended.exit_code == 0, ended.output
    assert "mirror" not in ended.output


def dead_storage() -> str:
    """Return the connection string of an account where no server listens."""
    return "AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:1/a;"


def retention_was_quicker(broker: EmbeddedBroker) -> None:
    """Delete records that the group has not read."""
    commit(broker, {2: 1})
    broker.delete_records("orders", 2, 3)


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (
            lambda broker: broker.set_topic_error("orders", KafkaError.TOPIC_AUTHORIZATION_FAILED),
            ["TOPIC_AUTHORIZATION_FAILED", "Basic tier", "#the-broker-refuses-access."],
        ),
        (lambda broker: broker.move_leader("orders", 1, None), ["1 of 3 partitions have no leader: 1"]),
        (
            lambda broker: broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.OFFSET_METADATA_TOO_LARGE),
            ["✗ commit", "1024 bytes"],
        ),
        (retention_was_quicker, ["partition 2 at 1 (log 3–4); 2 offsets are gone"]),
        (
            lambda broker: commit(broker, {0: 99}),
            ["beyond the end of the log: partition 0 at 99 (log 0–4)", "recreated"],
        ),
    ],
    ids=["a refused topic", "no leader", "a refused commit", "deleted records", "ahead of the log"],
)
def test_a_step_that_fails_says_where_and_why(
    broker: EmbeddedBroker, breaks: Callable[[EmbeddedBroker], None], words: list[str]
) -> None:
    """One step fails, and the exit code is that of a broker's refusal."""
    breaks(broker)
    code, output = check(broker)
    assert code == 3
    assert [word for word in words if word not in the_failure(output)] == []


def test_a_coordinator_that_is_not_there_yet(broker: EmbeddedBroker) -> None:
    """Errors that pass by themselves, and slow answers, are waited for within the step's time."""
    broker.delay_next(ApiKey.OFFSET_FETCH, 0.8)
    broker.fail_next(ApiKey.OFFSET_FETCH, *[KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2)
    broker.fail_next(ApiKey.OFFSET_COMMIT, KafkaError.NOT_COORDINATOR)
    assert check(broker)[0] == 0


def test_without_topic_and_group_the_rest_is_checked(broker: EmbeddedBroker) -> None:
    """What was not named is not measured, and that is no failure."""
    ended = CliRunner().invoke(cli, ["check", "--endpoint", broker.bootstrap])
    assert ended.exit_code == 0
    assert "add --topic" in ended.output
    assert "add --group" in ended.output


APP = """
import ehkafka

endpoint = ehkafka.Endpoint.kafka("{bootstrap}")
app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", {more})

@app.handler("orders")
def handle(record): ...
"""


def test_an_app_is_checked_with_its_own_settings(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint, group and topics are the app's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checked_shop.py").write_text(APP.format(bootstrap=broker.bootstrap, more=""))
    ended = CliRunner().invoke(cli, ["check", "checked_shop:app"])
    assert ended.exit_code == 0, ended.output
    assert "✓ group      shop" in ended.output
    assert "✓ offsets    orders" in ended.output


def test_a_setting_that_the_app_would_not_start_with(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step fails with the app's own error, nothing is tried, the exit code is that of settings."""
    monkeypatch.chdir(tmp_path)
    more = "consumer={'enable.auto.commit': True}"
    (tmp_path / "unfit_shop.py").write_text(APP.format(bootstrap=broker.bootstrap, more=more))
    ended = CliRunner().invoke(cli, ["check", "unfit_shop"])
    assert ended.exit_code == 2
    assert "enable.auto.commit" in the_failure(ended.output)
    assert ended.output.count("✓") == 0


def test_an_endpoint_given_twice_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both are settings to fix, said without starting anything."""
    monkeypatch.chdir(tmp_path)
    for arguments in ([], ["a:b", "--endpoint", "x:1"]):
        ended = CliRunner().invoke(cli, ["check", *arguments])
        assert ended.exit_code == 2
        assert "endpoint is" in ended.output.lower()


RESULTS = (
    CheckResult(name="settings", status=Status.OK, text="fine"),
    CheckResult(
        name="partitions",
        subject="orders",
        status=Status.FAILED,
        text="why, " * 30 + "?",
        fix="how, " * 30 + "!",
    ),
    CheckResult(name="commit", status=Status.SKIPPED, text="needs partitions orders"),
)


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_terminal_shows_aligned_columns(width: int) -> None:
    """Long texts are wrapped within their column, whatever the width."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    for result in RESULTS:
        show_row(console, result)
    show_end(console, Report(endpoint="home", group=None, topics=(), results=RESULTS))
    *rows, end = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, rows)) <= width
    assert all(row[13] != " " and (row[:2] == "  " or row[12] == " ") for row in rows), rows
    assert end == "home: 1 failed, 1 not tried because of it"


def test_an_output_without_signs_gets_words() -> None:
    """A pipe that carries ASCII alone is no reason to fail."""
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(file=file)
    for result in RESULTS:
        show_line(console, result)
    file.flush()
    shown = file.buffer.getvalue().decode("ascii")
    assert "ok settings" in shown
    assert "FAILED partitions" in shown
