"""`ehkafka config`: what it shows for eyes, for a pipe and for programs, and what it never shows."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from ehkafka import App, Endpoint
from ehkafka.cli import config
from ehkafka.cli.config import effective
from ehkafka.cli.settings.given import Given
from ehkafka.endpoint.environment import KEYS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

KEY = "Zk9xQ0vR3t7pLmW2dYhB8sJc5uNe1aXg"
CONNECTION_STRING = (
    f"Endpoint=sb://unit-test.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}"
)
SHOP = """
import ehkafka
app = ehkafka.App(group="home", start="earliest", stuck_s=60)
@app.handler("readings")
def handle(record): print("HANDLED")
"""
FILE = f"""
[app]
drain_s = 20
[endpoint]
connection_string = "{CONNECTION_STRING}"
[consumer]
metadata.max.age.ms = 200_000
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with an app and a file of settings, and none of our variables set."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("EHKAFKA_")]:
        monkeypatch.delenv(name)
    Path("shop.py").write_text(SHOP)
    Path("ehkafka.toml").write_text(FILE)
    Path("ehkafka.toml").chmod(0o600)
    monkeypatch.setenv("EHKAFKA_CONFIG", "ehkafka.toml")
    return tmp_path


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, **options: Any) -> list[str]:
    """Return what a terminal of that width shows without an app."""
    screen = io.StringIO()

    def console(**_given: Any) -> Console:
        return Console(file=screen, width=columns, force_terminal=True, color_system=None, highlight=False)

    monkeypatch.setattr(config, "PipedConsole", console)
    config.show(effective(None, Given.read(**options)), as_json=False)
    return screen.getvalue().splitlines()


def test_each_value_is_a_line_in_a_pipe(ehkafka_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aligned, with origin and reason; advice at the end of the line."""
    monkeypatch.setenv("EHKAFKA_COMMIT_INTERVAL_S", "2")
    ended = ehkafka_command("config", "shop", "--set", "stop_s=5")
    assert ended.returncode == 0, ended.stderr
    lines = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert "unit-test.servicebus.windows.net" in lines["endpoint.name"]
    for name, parts in {
        "app.group": ["home", " code ", "consumer group"],
        "app.drain_s": ["20.0", "ehkafka.toml: app.drain_s"],
        "app.stop_s": ["5.0", "--set stop_s"],
        "app.stuck_s": ["60", " code "],
        "app.idle_s": ["5.0", " default "],
        "app.commit_interval_s": ["2.0", "EHKAFKA_COMMIT_INTERVAL_S", "whose records a crash repeats"],
        "consumer.sasl.password": [" *** ", " endpoint "],
        "consumer.enable.auto.commit": ["false", " engine ", "ehkafka commits itself"],
        "consumer.session.timeout.ms": ["30000", " default ", "permits 6000 to 300000"],
        "consumer.metadata.max.age.ms": ["200000", "ADVICE", "recommends 180000"],
    }.items():
        assert [part for part in parts if part not in lines[name]] == [], lines[name]
    assert "HANDLED" not in ended.stdout
    starts = {
        line.index(word) for line, word in ((lines["app.idle_s"], "default"), (lines["app.group"], "code"))
    }
    assert len(starts) == 1, "the columns are not aligned"


def test_what_is_used_instead_is_said(ehkafka_command: Command) -> None:
    """Event Hubs bounds the pace of commits; the group the time of a drain."""
    more = ["commit_interval_s=0.01", "drain_s=1000"]
    ended = ehkafka_command("config", "shop", *(part for one in more for part in ("--set", one)))
    lines = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert "ADVICE: 1 is used, for Event Hubs takes" in lines["app.commit_interval_s"]
    assert "ADVICE: 150 is used, for" in lines["app.drain_s"]
    assert "ADVICE" not in lines["app.stop_s"]


def test_the_value_of_an_unknown_name_is_hidden(ehkafka_command: Command) -> None:
    """Librdkafka refuses the name at the start; until then its meaning is unknown."""
    Path("own.toml").write_text(FILE + 'shared.access.key = "hunter22"\napi.key = "hunter22"\n')
    Path("own.toml").chmod(0o600)
    ended = ehkafka_command("config", "shop", "--config", "own.toml")
    assert ended.returncode == 0, ended.stderr
    assert "consumer.api.key" in ended.stdout
    assert "hunter22" not in ended.stdout


def test_programs_get_json(ehkafka_command: Command) -> None:
    """Values keep their types; what was not given is null."""
    ended = ehkafka_command("config", "shop:app", "--json")
    shown = json.loads(ended.stdout)
    assert (shown["app"], shown["file"]) == ("shop:app", "ehkafka.toml")
    values = {(value["section"], value["name"]): value for value in shown["values"]}
    assert values["app", "drain_s"]["value"] == 20
    assert values["app", "reset"]["value"] is False
    assert values["app", "instance_id"]["value"] is None
    assert values["app", "drain_s"]["origin"] == "ehkafka.toml: app.drain_s"
    assert {"section", "name", "value", "origin", "reason", "advice"} == set(values["app", "group"])


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_a_terminal_gets_sections_that_fit(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wider, no value is cut, and the order of precedence is said below."""
    lines = on_terminal(monkeypatch, columns)
    assert max(map(len, lines)) <= columns
    whole = " ".join(" ".join(lines).split())
    for part in (
        "Endpoint",
        "App",
        "librdkafka properties of the consumer",
        "partition.assignment.strategy range,roundrobin",
        "ehkafka.toml: app.drain_s · how long running calls",
        "metadata.max.age.ms=200000 is not recommended",
        "Read ehkafka.toml.",
        "flag, variable, file, the app's code, ehkafka's default",
    ):
        assert part in whole
    assert KEY not in whole


def test_without_an_app_its_own_settings_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Group and start are the code's to give; a variable's is shown as what it is."""
    values = {value.name: value for value in effective(None, Given.read()).values}
    assert [(values[name].value, values[name].origin) for name in ("group", "start", "group.id")] == [
        (None, "missing")
    ] * 3
    monkeypatch.setenv("EHKAFKA_GROUP", "home")
    values = {value.name: value for value in effective(None, Given.read()).values}
    assert (values["group"].value, values["group"].origin) == ("home", "EHKAFKA_GROUP")
    assert values["group.id"].value == "home"


def test_what_steers_a_terminal_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may hold anything."""
    Path("ehkafka.toml").write_text(
        '[endpoint]\nbootstrap="a:1"\n[consumer]\n"client.rack" = "\\u001b[2J\\u202e"'
    )
    lines = on_terminal(monkeypatch, 120)
    assert "\\x1b[2J\\u202e" in " ".join(lines)
    assert "\x1b[2J" not in " ".join(lines)
    shown = effective(None, Given.read()).values
    assert all(line.isprintable() for line in config.lines(shown))


def test_what_a_start_would_refuse_is_refused(
    ehkafka_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message with the exit code of a wrong setting, and nothing on stdout."""
    monkeypatch.setenv("EHKAFKA_CONSUMER_ENABLE_AUTO_COMMIT", "true")
    ended = ehkafka_command("config", "shop")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "enable.auto.commit='true' is refused: ehkafka commits itself" in ended.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("run", "shop", "--set", "connect_s=0.5"),
        ("check", "--timeout", "0.5"),
        ("tail", "readings", "--timeout", "0.5"),
    ],
    ids=lambda command: command[0],
)
def test_what_is_shown_is_what_runs(command: tuple[str, ...], ehkafka_command: Command) -> None:
    """Here the file's endpoint, at which no server listens, for as long as a flag says."""
    Path("ehkafka.toml").write_text("[endpoint]\nbootstrap = '127.0.0.1:1'")
    ended = ehkafka_command(*command)
    assert ended.returncode == 3
    assert "127.0.0.1" in ended.stdout + ended.stderr
    assert command[0] != "run" or re.search(r"within 0(\.5)? s", ended.stderr)


# Wherever a person may put a connection string: the way in, and every place where it does not belong.
PLACES = [
    *(f"EHKAFKA_{key.upper()}" for key in KEYS),
    *(f"EHKAFKA_{name}" for name in ("GROUP", "START", "DRAIN_S", "MAX_AGE", "INSTANCE_ID", "CONFIG")),
    *(f"EHKAFKA_CONSUMER_{name}" for name in ("SASL_PASSWORD", "BOOTSTRAP_SERVERS", "SESSION_TIMEOUT_MS")),
    *(f"EHKAFKA_PROPERTY_{name}" for name in ("SASL_PASSWORD", "CLIENT_ID", "SSL_KEY_PEM")),
    "EHKAFKA_HANDLER_READINGS_WORKERS",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_key_is_in_no_output(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: Any
) -> None:
    """Text, JSON, terminal and error, with the key in any variable and in the same place of the file."""
    in_file = place.removeprefix("EHKAFKA_").lower()
    texts = [
        "[endpoint]\nbootstrap='a:1'",
        f"[app]\n{in_file} = '{CONNECTION_STRING}'",
        f"x = '{CONNECTION_STRING}",
    ]
    for text in texts:
        Path("ehkafka.toml").write_text(text)
        for is_set in (True, False):
            with monkeypatch.context() as patch:
                if is_set:
                    patch.setenv(place, CONNECTION_STRING)
                outputs = outcome()
            shown = capsys.readouterr()
            assert KEY not in outputs + shown.out + shown.err + caplog.text


def outcome() -> str:
    """Return everything that the values, or the error in their place, can show."""
    try:
        app = App(group="g", start="earliest")
        Given.read().apply(app)
        shown = effective(None, Given.read())
    except Exception as error:
        return f"{error!r} {error.__cause__!r} {error.__context__!r}"
    config.show(shown, as_json=False)
    return f"{list(config.lines(shown.values))} {shown!r} {app.settings!r} {Endpoint!r}"
