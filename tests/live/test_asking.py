"""`scripts/live` before it starts, and what it writes down: no broker is needed for these."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.stand_ins import FIRST, KEYS, NAMESPACE, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ehkafka.testing import EmbeddedBroker

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
        (["here", "--only", "speed"], KEY, "'speed' is no probe: there are login, wrong-key, entra"),
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


def test_what_is_not_in_a_ledger_cannot_be_created(live: ModuleType, tmp_path: Path) -> None:
    """Its file has the name before the service has it, and a run that is over creates nothing."""
    ledger = live.Ledger.begin(tmp_path, NAMESPACE)
    ledger.add("topics", f"{ledger.prefix}records")
    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text())["topics"] == [f"{ledger.prefix}records"]
    [again] = live.Ledger.left_in(tmp_path, NAMESPACE)
    assert again.topics == ledger.topics
    assert not list(live.Ledger.left_in(tmp_path, "there.servicebus.windows.net"))
    assert not again.take(), "its run lives"
    ledger.close()
    with pytest.raises(live.NotTried, match="the run is over"):
        ledger.add("topics", f"{ledger.prefix}late")
    ledger.remove("topics", f"{ledger.prefix}records")
    ledger.end()
    assert not list(tmp_path.iterdir())
    assert ledger.prefix != live.Ledger.begin(tmp_path, NAMESPACE).prefix


def test_the_ledger_of_a_run_that_lives_is_not_taken(live: ModuleType, tmp_path: Path) -> None:
    """`--clean` in a second terminal would delete its topics; a lock ends with its process."""
    ledger = live.Ledger.begin(tmp_path, NAMESPACE)
    ledger.add("topics", f"{ledger.prefix}records")
    [seen] = live.Ledger.left_in(tmp_path, NAMESPACE)
    # Each time it is written, another file has the lock.
    ledger.add("topics", f"{ledger.prefix}wide")
    assert not seen.take()
    with holder(ledger.path) as process:
        ledger.end()
        process.stdin.write("lock\n")
        process.stdin.flush()
        assert process.stdout.readline() == "locked\n"
        assert not seen.take()
        process.kill()
        process.wait()
    assert seen.take()
    assert seen.topics == [f"{ledger.prefix}records", f"{ledger.prefix}wide"]
    for name in seen.topics:
        seen.remove("topics", name)
    [other] = live.Ledger.left_in(tmp_path, NAMESPACE)
    assert not other.take()
    seen.end()
    assert not list(tmp_path.iterdir())
    assert not other.take(), "it has ended"


def holder(path: Path) -> subprocess.Popen[str]:
    """Return another process, which locks a ledger when it is asked to."""
    code = (
        "import fcntl, sys; file = open(sys.argv[1]); sys.stdin.readline()\n"
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked', flush=True); sys.stdin.readline()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("topics", "orders"),
        ("topics", "ehkafka-live-0123456789abcdee-records"),
        ("groups", ""),
        ("blobs", ""),
        ("blobs", "/"),
        ("blobs", f"{NAMESPACE}/"),
        ("blobs", f"{NAMESPACE}/orders/billing/"),
        ("blobs", "ehkafka-live-0123456789abcdef-mirror"),
        ("blobs", f"{NAMESPACE}/orders/ehkafka-live-0123456789abcdef-mirror/../"),
    ],
)
def test_what_a_damaged_ledger_names_is_not_removed(
    live: ModuleType, tmp_path: Path, kind: str, name: str
) -> None:
    """An empty beginning of blobs' names would be the whole container."""
    from _live import cleaning  # noqa: PLC0415 - in `scripts`

    run = "0123456789abcdef"
    own = {
        "topics": [f"ehkafka-live-{run}-records"],
        "groups": [f"ehkafka-live-{run}-idle"],
        "blobs": [f"{NAMESPACE}/records/ehkafka-live-{run}-mirror/"],
    }
    entries: dict[str, Any] = {"run": run, "namespace": NAMESPACE, **own, kind: [*own[kind], name]}
    (tmp_path / f"{run}.json").write_text(json.dumps(entries))
    [ledger] = live.Ledger.left_in(tmp_path, NAMESPACE)
    assert ledger.take()
    removed: list[str] = []
    left = cleaning._remove(ledger, kind, getattr(ledger, kind), removed.append)
    assert removed == own[kind]
    assert left == {name: cleaning.NOT_OURS}
    ledger.end()
    assert getattr(live.Ledger.left_in(tmp_path, NAMESPACE)[0], kind) == [name]


def test_a_group_stays_where_the_broker_cannot_delete_groups(
    tmp_path: Path, embedded_broker_factory: Callable[..., EmbeddedBroker]
) -> None:
    """It is named with the reason; the request itself would end the whole process."""
    broker = embedded_broker_factory({"t": 1})
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "import ehkafka\n"
        "from _live import cleaning\n"
        "from _live.ledger import Ledger\n"
        "ledger = Ledger.begin(Path(sys.argv[2]), 'n')\n"
        "ledger.add('groups', ledger.prefix + 'idle')\n"
        "left = cleaning.clean(ledger, ehkafka.Endpoint.kafka(sys.argv[3]), None)\n"
        "assert list(left.values()) == [cleaning.GROUP_STAYS], left\n"
    )
    command = [sys.executable, "-c", code, str(SCRIPTS), str(tmp_path), broker.bootstrap]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, f"FACT: {ended.stderr[-500:]}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"run": "", "namespace": "n", "topics": [], "groups": [], "blobs": []}',
        '{"run": "0123456789abcdef", "namespace": "n", "topics": [1], "groups": [], "blobs": []}',
        '{"run": "fedcba9876543210", "namespace": "n", "topics": [], "groups": [], "blobs": []}',
    ],
)
def test_a_ledger_that_is_none_is_named(
    live: ModuleType, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do; nothing is asked."""
    path = tmp_path / "0123456789abcdef.json"
    path.write_text(text)
    assert live.main(["here", "--clean", "--state", str(tmp_path)], KEY) == 2
    assert f"{path} is no ledger of a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "only", "code"),
    [
        ({"login": "ok", "topics": "ok", "records": "ok", "idle": "could not be tried"}, None, 0),
        ({"login": "ok", "topics": "noted", "kip-848": "noted"}, ["kip-848"], 0),
        ({"login": "ok", "topics": "ok", "idle": "could not be tried"}, ["idle"], 4),
        ({"login": "ok", "topics": "ok", "records": "could not be tried"}, None, 4),
        ({"login": "could not be tried", "topics": "could not be tried"}, None, 4),
        ({"login": "differs", "topics": "could not be tried"}, None, 1),
        ({"login": "ok"}, ["login"], 0),
    ],
)
def test_a_run_that_could_try_nothing_is_no_success(
    live: ModuleType, found: dict[str, str], only: list[str] | None, code: int
) -> None:
    """A way in is not what it was for."""
    from _live.probe import Result, Status  # noqa: PLC0415 - in `scripts`

    results = [
        Result(name=name, documented="", link="", status=Status(status), seen="")
        for name, status in found.items()
    ]
    assert live.code_of(results, only) == code


def test_a_report_hides_secrets_always_and_names_on_request(live: ModuleType, tmp_path: Path) -> None:
    """Whatever a broker or an SDK puts into its texts."""
    from _live.names import Names  # noqa: PLC0415 - in `scripts`
    from _live.probe import Result, Status  # noqa: PLC0415

    options = live.parser().parse_args(["here", "--topic", "mine"])
    found = live.given(options, {**KEY, "EHKAFKA_LIVE_SECOND_CONNECTION_STRING": SECOND})
    site = live.Site(found, live.Ledger.begin(tmp_path, NAMESPACE), live.Waits())
    text = f"{NAMESPACE}:9093/bootstrap (10.0.0.7): topic mine | {FIRST} and {KEYS[1]}"
    text += f" in {site.ledger.prefix}idle"
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
    for name in (NAMESPACE, "10.0.0.7", "mine", site.ledger.run):
        assert name not in pages["hidden"]
    assert "<namespace>:9093/bootstrap (<address>): topic <topic> \\| ***" in pages["hidden"]
    assert "in ehkafka-live-<run>-idle" in pages["hidden"]
