"""`scripts/live` against stand-ins: it reports what they do, finds what differs, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

from tests.kit.brokers import running
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.waiting import wait_until
from tests.live.stand_ins import (
    FIRST,
    KEYS,
    NAMESPACE,
    SCALE,
    SECOND,
    SHORT_METADATA_BYTES,
    WRONG,
    StandIns,
    amqp_header,
    environment,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.azurite import Azurite

pytestmark = pytest.mark.broker

SCRIPTS = Path(__file__).parents[2] / "scripts"
STARTED_S = 30.0


@pytest.fixture(scope="module")
def stand_ins() -> Iterator[StandIns]:
    """Run them for all tests of this file."""
    with running(StandIns()) as started:
        yield started


class Command:
    """The command in this process, with folders of the test's own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], stderr_fd: int) -> None:
        self.state, self.reports = folder / "state", folder / "reports"
        self._capsys, self._stderr_fd = capsys, stderr_fd
        self.shown = ""

    @property
    def options(self) -> list[str]:
        """What every run gets."""
        return [NAMESPACE, "--yes", "--state", str(self.state), "--report", str(self.reports)]

    def run(self, environ: dict[str, str], *options: str, scale: float = SCALE) -> int:
        """Run it and return its code."""
        from _live.command import main  # noqa: PLC0415 - in `scripts`

        with own_stderr(self._stderr_fd):
            code = main([*self.options, "--scale", str(scale), *options], environ)
        self.shown = "".join(self._capsys.readouterr())
        self.check_secrets()
        return code

    def check_secrets(self) -> None:
        """No key in what was shown, in a report or in a ledger."""
        texts = [self.shown, *(path.read_text() for path in self._files())]
        leaked = [key for key in KEYS if any(key in text for text in texts)]
        assert not leaked, "FACT: a key was shown"

    def report(self) -> dict[str, Any]:
        """Return its only report."""
        [path] = self.reports.glob("*.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _files(self) -> list[Path]:
        return [path for folder in (self.state, self.reports) for path in folder.glob("*")]


@contextmanager
def own_stderr(fd: int) -> Iterator[None]:
    """Let librdkafka write past pytest: it has aborted here, and its reason went with pytest's file."""
    kept = os.dup(2)
    os.dup2(fd, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@pytest.fixture
def command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> Command:
    """Return the command."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return Command(tmp_path, capsys, pytestconfig.stash[fault_handler_stderr_fd_key])


def statuses(report: dict[str, Any]) -> dict[str, str]:
    """Return how each probe ended."""
    return {probe["name"]: probe["status"] for probe in report["probes"]}


def seen(report: dict[str, Any], name: str) -> str:
    """Return what a probe has seen."""
    return next(str(probe["seen"]) for probe in report["probes"] if probe["name"] == name)


def test_a_run_finds_what_is_documented_and_leaves_nothing(
    stand_ins: StandIns, azurite: Azurite, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All probes, each against what stands in for the service."""
    monkeypatch.syspath_prepend(SCRIPTS)
    from _live.probes import amqp, rotation  # noqa: PLC0415 - in `scripts`

    monkeypatch.setattr("ehkafka.endpoint.keys.source.CallableSource.interval_s", 0.2)
    entered = rotation._entered

    def entered_by_the_second(site: Any, changes: Any) -> Any:
        stand_ins.accept("second")
        try:
            return entered(site, changes)
        finally:
            stand_ins.accept("hub")

    def sent_by_amqp(site: Any, body: bytes) -> None:
        pairs = {**amqp.PROPERTIES, "x-opt-partition-key": amqp.PARTITION_KEY}
        headers = [(name, amqp_header(value)) for name, value in pairs.items()]
        site.produce(site.topic, [(None, body)], headers=headers)

    monkeypatch.setattr(rotation, "_entered", entered_by_the_second)
    monkeypatch.setattr(amqp, "send", sent_by_amqp)
    container = f"live-{uuid.uuid4().hex[:8]}"  # a rerun finds what a failed run has left
    azurite.create_container(container)
    before = stand_ins.names()
    stand_ins.close_idle()
    with IdentityEndpoint() as identity:
        for name, value in identity.environment().items():
            monkeypatch.setenv(name, value)
        variables = {
            **environment(stand_ins.hub),
            "EHKAFKA_LIVE_SECOND_CONNECTION_STRING": SECOND,
            "EHKAFKA_MIRROR_CONTAINER": container,
            "EHKAFKA_MIRROR_CONNECTION_STRING": azurite.connection_string(),
        }
        code = command.run(variables, "--credential", "managed_identity", "--throttle", "--redact")
    report = command.report()
    differing = {name for name, status in statuses(report).items() if status == "differs"}
    # Apache Kafka has no such limit, and the command says so.
    assert (code, differing) == (1, {"group-names"}), command.shown
    assert {name for name, status in statuses(report).items() if status == "could not be tried"} == {
        "group-count"
    }
    for name, words in {
        "wrong-key": "_AUTHENTICATION",
        "entra": "a token for https://<namespace>",
        "commits": "throttled",
        "metadata": "1023 bytes are returned intact",
        "sizes": "are refused",
        "sessions": "INVALID_SESSION_TIMEOUT",
        "transactions": "each seen once",
        "mirror": "is not replaced",
        "amqp": "4 properties",
        "rotation": "changed over",
        "idle": "closed after 1",
    }.items():
        assert words in seen(report, name), name
    assert stand_ins.names() == before, "FACT: a run left something"
    with azurite.service_client() as service:
        assert not list(service.get_container_client(container).list_blobs()), "FACT: a run left blobs"
    assert not list(command.state.glob("*")), "its ledger"
    page = next(command.reports.glob("*.md")).read_text()
    assert "| commits | " in page
    assert "here" not in page.replace("there", "").replace("otherwhere", "").replace("where", "")


def test_what_differs_is_found(stand_ins: StandIns, command: Command) -> None:
    """Less metadata, no throttling, no transactions, no new protocol; groups that cannot be deleted."""
    probes = ("metadata", "commits", "transactions", "kip-848", "versions")
    only = [option for probe in probes for option in ("--only", probe)]
    code = command.run(environment(stand_ins.other), *only)
    report = command.report()
    found = statuses(report)
    assert {name for name, status in found.items() if status == "differs"} == {
        "metadata",
        "commits",
        "transactions",
    }, command.shown
    assert "DeleteGroups not offered" in seen(report, "versions")
    [size] = re.findall(r"only (\d+) bytes", seen(report, "metadata"))
    assert SHORT_METADATA_BYTES <= int(size) < 2 * SHORT_METADATA_BYTES - 1
    assert "no throttling" in seen(report, "commits")
    assert "cannot send exactly once" in seen(report, "transactions")
    assert "not offered" in seen(report, "kip-848")
    # Such a namespace deletes no groups: the report has their names and the reason.
    assert code == 3
    assert {name for name in stand_ins.names() if "ehkafka-live" in name} <= report["left"].keys()
    assert not [name for name in stand_ins.broker._admin().list_topics().topics if "ehkafka-live" in name]
    run = next(iter(report["left"])).removeprefix("ehkafka-live-")[:16]
    assert command.run(environment(stand_ins.hub), "--clean", "--run", run) == 0
    assert not [name for name in stand_ins.names() if run in name], "FACT: --run left something"


def test_a_refused_login_is_reported_and_nothing_else_is_tried(stand_ins: StandIns, command: Command) -> None:
    """The step that fails, its reason, and no topic."""
    assert command.run(environment(stand_ins.hub, WRONG)) == 1
    report = command.report()
    found = statuses(report)
    assert found.pop("login") == "differs"
    assert set(found.values()) == {"could not be tried"}
    assert "at the step auth" in seen(report, "login")
    assert "_AUTHENTICATION" in seen(report, "login")


def test_a_run_that_dies_is_cleaned_up_later_and_one_that_is_interrupted_at_once(
    stand_ins: StandIns, command: Command
) -> None:
    """SIGKILL and then `--clean`, which leaves alone what lives; Ctrl-C and SIGTERM need nothing more."""
    before = stand_ins.names()
    killed = Started(stand_ins, command, "killed", "commits")
    interrupted = {
        kind: Started(stand_ins, command, kind.name, "idle") for kind in (signal.SIGINT, signal.SIGTERM)
    }
    for process in interrupted.values():
        process.wait_for_group("idle")
    in_use = stand_ins.names() - before
    assert command.run(environment(stand_ins.hub), "--clean") == 0
    assert command.shown.count("is under way") == len(interrupted) + 1
    assert in_use <= stand_ins.names(), "FACT: --clean removed what was in use"
    for kind, process in interrupted.items():
        process.send(kind)
    killed.wait_for_group("pacing")
    killed.send(signal.SIGKILL)
    for kind, process in interrupted.items():
        assert process.ended() == 130, process.shown()
        report = process.report()
        assert statuses(report)["idle"] == "could not be tried", kind
        assert "interrupted" in seen(report, "idle")
        assert report["left"] == {}
    assert killed.ended() == -signal.SIGKILL
    left = stand_ins.names() - before
    assert left
    assert all(name.startswith("ehkafka-live-") for name in left)
    assert len(list(command.state.glob("*.json"))) == 1
    assert command.run(environment(stand_ins.hub), "--clean") == 0
    assert stand_ins.names() == before, "FACT: --clean left something"
    assert not list(command.state.glob("*"))
    for process in (killed, *interrupted.values()):
        assert FIRST.partition("SharedAccessKey=")[2] not in process.shown(), "FACT: a key was shown"


class Started:
    """The command in a process of its own, at the pace of a real run."""

    def __init__(self, stand_ins: StandIns, command: Command, name: str, probe: str) -> None:
        self._stand_ins = stand_ins
        self._log = command.state.with_name(f"{name}.log")
        self._reports = command.reports.with_name(f"{name}-reports")
        path = os.pathsep.join([str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])])
        environ = {**os.environ, "PYTHONPATH": path, **environment(stand_ins.hub)}
        options = [*command.options, "--report", str(self._reports), "--only", probe]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "_live", *options], stdout=log, stderr=log, env=environ
            )

    def wait_for_group(self, name: str) -> None:
        """Wait until the run has created that group."""

        def is_there() -> bool:
            assert self._process.poll() is None, self.shown()
            return any(found.endswith(f"-{name}") for found in self._groups())

        wait_until(is_there, self.shown, timeout_s=STARTED_S)

    def send(self, kind: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(kind)

    def ended(self) -> int:
        """Wait for its end and return its code."""
        timer = threading.Timer(STARTED_S, self._process.kill)
        timer.start()
        code = self._process.wait()
        timer.cancel()
        timer.join()
        return code

    def shown(self) -> str:
        """Return what it has shown so far."""
        return self._log.read_text()

    def report(self) -> dict[str, Any]:
        """Return its report."""
        [path] = self._reports.glob("*.json")
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    def _groups(self) -> set[str]:
        run = self.shown().partition("begin with ehkafka-live-")[2][:16]
        return {name for name in self._stand_ins.names() if run and run in name}
