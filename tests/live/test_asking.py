"""`scripts/live` before it starts, and what it writes down: no broker is needed for these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.stand_ins import FIRST, KEYS, NAMESPACE, SECOND

if TYPE_CHECKING:
    from types import ModuleType

SCRIPTS = Path(__file__).parents[2] / "scripts"
# Nothing listens there, and nothing may be asked.
LED = {
    "EHKAFKA_PROPERTY_BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "EHKAFKA_PROPERTY_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
}
KEY = {"EHKAFKA_CONNECTION_STRING": FIRST, **LED}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the command's module."""
    monkeypatch.syspath_prepend(SCRIPTS)
    from _live import command  # noqa: PLC0415 - in `scripts`

    return command


def test_without_consent_nothing_is_done(
    live: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cost, topics, groups and time are shown first; no answer is a no."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert live.main(["here", "--state", str(tmp_path), "--throttle", "--topic", "mine"], KEY) == 2
    shown = capsys.readouterr().out
    for words in (NAMESPACE, "They take about", "removes at its end", "a compacted topic", "ingress events"):
        assert words in shown
    assert "auto-inflate" in shown
    assert "The records in mine stay" in shown
    assert "give --yes" in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        (["there"], KEY, "leads to another namespace than there.servicebus.windows.net"),
        (["here"], {}, "set EHKAFKA_CONNECTION_STRING"),
        (["here"], {"EHKAFKA_CONNECTION_STRING_FILE": "/nowhere"}, "cannot be read: FileNotFoundError"),
        ([FIRST], {}, "it is a connection string"),
        (
            ["here", "--container", f"https://a.blob.core.windows.net/c?sig={KEYS[0]}"],
            KEY,
            "A SAS is a secret",
        ),
        (["here", "--run", "../x"], KEY, "16 hexadecimal digits"),
    ],
)
def test_what_cannot_work_is_refused_without_a_secret(
    live: ModuleType,
    options: list[str],
    environ: dict[str, str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one sentence."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert live.main([*options, "--state", str(tmp_path)], environ) == 2
    shown = "".join(capsys.readouterr())
    assert words in shown
    assert not [key for key in KEYS if key in shown]


def test_a_hub_s_own_string_is_for_that_hub(live: ModuleType) -> None:
    """Its policy cannot create topics."""
    options = live._parser().parse_args(["here"])
    environ = {**KEY, "EHKAFKA_CONNECTION_STRING": f"{FIRST};EntityPath=mine"}
    assert live.given(options, environ).own_topic == "mine"


def test_only_some_probes_are_tried_with_what_they_need(live: ModuleType) -> None:
    """In their order."""
    assert [probe.name for probe in live.plan.chosen(["idle"])] == ["login", "topics", "idle"]
    assert len(live.plan.chosen(None)) == len({probe.name for probe in live.plan.PROBES})
    assert sum(probe.expected_s for probe in live.plan.PROBES) < 20 * 60


def test_what_is_not_in_a_ledger_cannot_be_created(live: ModuleType, tmp_path: Path) -> None:
    """Its file has the name before the service has it, and a run that is over creates nothing."""
    ledger = live.Ledger.begin(tmp_path, NAMESPACE)
    ledger.add("topics", f"{ledger.prefix}records")
    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text())["topics"] == [f"{ledger.prefix}records"]
    [again] = live.Ledger.left_in(tmp_path, NAMESPACE)
    assert again.topics == ledger.topics
    assert not list(live.Ledger.left_in(tmp_path, "there.servicebus.windows.net"))
    ledger.close()
    with pytest.raises(live.NotTried, match="the run is over"):
        ledger.add("topics", f"{ledger.prefix}late")
    ledger.remove("topics", f"{ledger.prefix}records")
    ledger.end()
    assert not list(tmp_path.iterdir())
    assert ledger.prefix != live.Ledger.begin(tmp_path, NAMESPACE).prefix


def test_a_report_hides_secrets_always_and_names_on_request(live: ModuleType, tmp_path: Path) -> None:
    """Whatever a broker or an SDK puts into its texts."""
    from _live.names import Names  # noqa: PLC0415 - in `scripts`
    from _live.probe import Result, Status  # noqa: PLC0415

    options = live._parser().parse_args(["here", "--topic", "mine"])
    found = live.given(options, {**KEY, "EHKAFKA_LIVE_SECOND_CONNECTION_STRING": SECOND})
    site = live.Site(found, live.Ledger.begin(tmp_path, NAMESPACE), live.Waits())
    text = f"{NAMESPACE}:9093/bootstrap (10.0.0.7): topic mine | {FIRST} and {KEYS[1]}"
    result = Result(
        name="x", documented="y", link="https://z", status=Status.NOTED, seen=text, facts={"k": text}
    )
    options_of_report: dict[str, Any] = {"site": site, "results": [result], "left": {}, "took_s": 1.0}
    pages = {}
    for kind, names in {"plain": None, "hidden": Names(found, site.ledger)}.items():
        paths = live.Report(**options_of_report, names=names).write(tmp_path / kind)
        pages[kind] = "".join(path.read_text() for path in paths)
    site.close()
    assert not [key for key in KEYS for page in pages.values() if key in page], "FACT: a key was shown"
    assert NAMESPACE in pages["plain"]
    assert "10.0.0.7" in pages["plain"]
    for name in (NAMESPACE, "10.0.0.7", "mine"):
        assert name not in pages["hidden"]
    assert "<namespace>:9093/bootstrap (<address>): topic <topic> \\| ***" in pages["hidden"]
