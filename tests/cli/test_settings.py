"""Settings of files, variables and flags: precedence, types, and what each mistake is reported as."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ehkafka import App, Endpoint
from ehkafka.cli.settings.given import Given
from ehkafka.errors import ConfigurationError

KEY = "Zk9xQ0vR3t7pLmW2dYhB8sJc5uNe1aXg"
CONNECTION_STRING = (
    f"Endpoint=sb://unit-test.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}"
)


FILE = Path("ehkafka.toml")

pytestmark = pytest.mark.usefixtures("folder")


def write(text: str, file: Path = FILE, mode: int = 0o600) -> Path:
    """Write a file of settings."""
    file.write_text(text)
    file.chmod(mode)
    return file


def configured(*flags: str, **code: Any) -> App:
    """Return an app with what the written file, environment and flags say laid over its code."""
    app = App(**{"group": "code", "start": "latest", "endpoint": Endpoint.kafka("code:1"), **code})
    Given.read(FILE if FILE.exists() else None, flags).apply(app)
    return app


def origins(app: App) -> dict[str, str]:
    """Return where each value came from."""
    return {value.name: value.origin for value in app.configuration()}


def test_flag_before_variable_before_file_before_code_before_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source decides what no higher one says, and is named as the origin."""
    write("[app]\nstop_s = 2\nidle_s = 2\nstuck_s = 2")
    monkeypatch.setenv("EHKAFKA_STOP_S", "3")
    monkeypatch.setenv("EHKAFKA_IDLE_S", "3")
    app = configured("stop_s=4", stop_s=1, idle_s=1, stuck_s=1, drain_s=1)
    settings = app.settings
    values = (settings.stop_s, settings.idle_s, settings.stuck_s, settings.drain_s, settings.connect_s)
    assert values == (4, 3, 2, 1, 15)
    found = origins(app)
    assert [found[name] for name in ("stop_s", "idle_s", "stuck_s", "drain_s", "connect_s")] == [
        "--set stop_s",
        "EHKAFKA_IDLE_S",
        "ehkafka.toml: app.stuck_s",
        "code",
        "default",
    ]


@pytest.mark.parametrize(
    ("table", "property_", "other_name"),
    [
        ("consumer", "max.partition.fetch.bytes", "fetch.message.max.bytes"),
        ("producer", "linger.ms", "queue.buffering.max.ms"),
    ],
)
def test_properties_have_the_same_precedence_under_any_name(
    table: str, property_: str, other_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second name of librdkafka's is the same property; TOML's own dots are names too."""
    write(f'[{table}]\n{other_name} = 2\n"retry.backoff.ms" = 2\nsocket.timeout.ms = 2\n')
    prefix = f"EHKAFKA_{table.upper()}"
    monkeypatch.setenv(f"{prefix}_{property_.upper().replace('.', '_')}", "3")
    monkeypatch.setenv(f"{prefix}_RETRY_BACKOFF_MS", "3")
    app = configured(f"{table}.{other_name}=4", **{table: {other_name: 1, "client.rack": "r"}})
    laid = {property_: "4", "retry.backoff.ms": "3", "socket.timeout.ms": 2, "client.rack": "r"}
    assert getattr(app.settings, table) == laid
    assert {"consumer": app.settings.producer, "producer": app.settings.consumer}[table] == {}
    shown = {one.name: one.origin for one in app.configuration() if one.section == table}
    assert [shown[name] for name in laid] == [
        f"--set {table}.{other_name}",
        f"{prefix}_RETRY_BACKOFF_MS",
        f"ehkafka.toml: {table}.socket.timeout.ms",
        "code",
    ]


def test_settings_that_contradict_alone_may_agree_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the whole is judged: the file's limit fits the variable's, not the default."""
    write("[app]\nbacklog_records_max = 500")
    monkeypatch.setenv("EHKAFKA_CONSUME_RECORDS_MAX", "100")
    assert configured().settings.backlog_records_max == 500
    monkeypatch.delenv("EHKAFKA_CONSUME_RECORDS_MAX")
    with pytest.raises(ConfigurationError, match="consume_records_max=1000 is above backlog_records_max=500"):
        configured()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("start", "earliest", "earliest"),
        ("start", "1200", 1200),
        ("start", "-10m", timedelta(minutes=10)),
        ("start", "1.5 hours ago", timedelta(minutes=90)),
        ("start", "1 day ago", timedelta(days=1)),
        ("start", "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("max_age", "7d", timedelta(days=7)),
        ("max_age", "1.5h", timedelta(minutes=90)),
        ("reset", "yes", True),
        ("reset", "june-2", "june-2"),
        ("drain_s", "0.5", 0.5),
        ("drain", "all", "all"),
        ("drain", "false", False),
        ("commit_every_records", "100", 100),
        ("instance_id", "pod-1", "pod-1"),
        ("assignor", "cooperative-sticky", "cooperative-sticky"),
    ],
)
def test_text_becomes_the_settings_type(
    name: str, text: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable and a flag are read alike."""
    assert getattr(configured(f"{name}={text}").settings, name) == value
    monkeypatch.setenv(f"EHKAFKA_{name.upper()}", text)
    assert getattr(configured().settings, name) == value


def test_a_file_has_types_of_its_own() -> None:
    """Numbers and moments need no quotes there."""
    write("[app]\nstart = 2026-01-31T12:00:00Z\ndrain_s = 5\nreset = true\nmax_age = '90s'")
    settings = configured().settings
    assert settings.start == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (settings.drain_s, settings.reset, settings.max_age) == (5, True, timedelta(seconds=90))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[app\n", "ehkafka.toml is not TOML: .*line 1"),
        ("[ap]\n", r"no table \[ap\]; did you mean app\?"),
        ("app = 1", r"app is not a table; write \[app\]"),
        ("[app]\ndrains_s = 1", "no setting app.drains_s; did you mean drain_s?"),
        ("[app]\ndrain_s = '5'", "ehkafka.toml: app.drain_s='5' is refused: .*valid number"),
        ("[app]\ndrain_s = true", "app.drain_s=True is refused"),
        ("[app]\ndrain = 'most'", "app.drain='most' is refused: .*'started', 'all' or 'running'"),
        ("[app]\ndrain_s = [1]", "app.drain_s=.1. is refused"),
        ("[app]\nmax_age = 7", "app.max_age=7 is refused: give a duration with its unit"),
        ("[app]\nstart = 2026-01-31T12:00:00", "app.start=.* is refused: .*with its zone"),
        ("[app]\nassignor = 'sticky'", "app.assignor='sticky' is refused: .*'cooperative-sticky'"),
        ("[app]\nconsumer = {}", r"write a table \[consumer\]"),
        ("[app]\ndrain_s = -1", "drain_s=-1"),
        ("[consumer]\n'fetch.min.bytes' = [1]", r"consumer.fetch.min.bytes=\[1\] is refused"),
        ("[endpoint]\nbootstap = 'a:1'", "no setting endpoint.bootstap; did you mean bootstrap?"),
        ("[endpoint]\nnamespace = 1", "endpoint.namespace must be text"),
        ("[endpoint]\nproperties = 1", r"write \[endpoint.properties\]"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_file_and_key(text: str, shown: str) -> None:
    """And with what is close to an unknown name."""
    write(text)
    with pytest.raises(ConfigurationError, match=shown) as caught:
        configured()
    assert "ehkafka.toml" in str(caught.value) or text == "[app]\ndrain_s = -1"


def test_another_file_by_option_or_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option goes before the variable."""
    by_variable = write("[app]\ndrain_s = 2", Path("variable.toml"))
    by_option = write("[app]\ndrain_s = 3", Path("option.toml"))
    monkeypatch.setenv("EHKAFKA_CONFIG", str(by_variable))
    assert Given.read().layer.values("app") == {"drain_s": 2}
    assert Given.read(by_option).layer.values("app") == {"drain_s": 3}


@pytest.mark.parametrize(
    ("variable", "text", "shown"),
    [
        ("EHKAFKA_DRAIN_S", "soon", "EHKAFKA_DRAIN_S='soon' is refused: .*valid number"),
        ("EHKAFKA_START", "middle", "EHKAFKA_START='middle' is refused: give earliest, latest"),
        ("EHKAFKA_MAX_AGE", "7", "EHKAFKA_MAX_AGE='7' is refused: give a duration"),
        ("EHKAFKA_COMMIT_EVERY_RECORDS", "1.5", "EHKAFKA_COMMIT_EVERY_RECORDS='1.5' is refused"),
        ("EHKAFKA_DRAINS", "1", "no variable EHKAFKA_DRAINS; did you mean EHKAFKA_DRAIN_S?"),
        ("EHKAFKA_CONNECTION_STING", "x", "did you mean EHKAFKA_CONNECTION_STRING?"),
    ],
)
def test_a_mistake_in_a_variable_is_reported_with_its_name(
    variable: str, text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names what to correct."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigurationError, match=shown):
        configured()


def test_variables_of_others_are_no_mistake(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An orchestrator's, those of commands and of our tests pass without a word, an unknown one is named."""
    tests = _variables_of_tests()
    assert {"REQUIRE_BROKER", "LONG"} < tests
    ours = ("LOG_LEVEL", "HTTP_HOSTS", "HTTP_TOKEN", "HTTP_TOKEN_FILE")
    for name in ("SERVICE_HOST", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP_ADDR", "STOP_S", *ours, *tests):
        monkeypatch.setenv(f"EHKAFKA_{name}", "")
    configured()
    assert caplog.text == ""
    monkeypatch.setenv("EHKAFKA_COLOUR", KEY)
    configured()
    assert "EHKAFKA_COLOUR is not a setting" in caplog.text
    assert KEY not in caplog.text


def _variables_of_tests() -> set[str]:
    """Return what our tests read with a default."""
    texts = [path.read_text() for path in Path(__file__).parents[1].rglob("*.py")]
    return {name for text in texts for name in re.findall(r'environ\.get\("EHKAFKA_(\w+)"', text)}


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        ("drain_s", "--set takes NAME=VALUE"),
        ("drains_s=1", "no setting 'drains_s'; did you mean drain_s?"),
        ("drain_s=x", "--set drain_s='x' is refused"),
        (
            "consumer.sasl.password=" + KEY,
            "--set consumer.sasl.password is refused, because all users.*command line",
        ),
        (CONNECTION_STRING, "no setting of that name|no setting 'Endpoint'"),
    ],
)
def test_a_mistake_in_a_flag_is_reported(flag: str, shown: str) -> None:
    """A secret on the command line is refused and not repeated."""
    with pytest.raises(ConfigurationError, match=shown) as caught:
        configured(flag)
    assert KEY not in str(caught.value)


def test_an_app_without_endpoint_takes_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way in among the variables replaces the file's with all that belongs to it, properties too."""
    write(
        "[endpoint]\nnamespace = 'home'\ncredential = 'cli'\n"
        "[endpoint.properties]\nssl.ca.location = '/file.pem'\nclient.id = 'file'"
    )
    app = configured(endpoint=None)
    assert app.endpoint.name == "home.servicebus.windows.net"
    assert origins(app)["kind"] == "ehkafka.toml: endpoint.namespace"
    assert origins(app)["ssl.ca.location"] == "ehkafka.toml: endpoint.properties.ssl.ca.location"
    app.endpoint.close()
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", "variable:1")
    monkeypatch.setenv("EHKAFKA_PROPERTY_CLIENT_ID", "variable")
    app = configured(endpoint=None)
    assert app.endpoint.client_properties() == {"bootstrap.servers": "variable:1", "client.id": "variable"}
    assert origins(app)["kind"] == "EHKAFKA_BOOTSTRAP"
    assert origins(app)["client.id"] == "EHKAFKA_PROPERTY_CLIENT_ID"


def test_the_codes_endpoint_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its variables may be what the code itself read; a file's table would have no effect, and is refused."""
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", "variable:1")
    assert configured().endpoint.name == "code"
    for text in ("[endpoint]\nbootstrap = 'file:1'", "[endpoint.properties]\nclient.id = 'file'"):
        write(text)
        monkeypatch.delenv("EHKAFKA_BOOTSTRAP", raising=False)
        with pytest.raises(ConfigurationError, match=r"ehkafka.toml: endpoint\..* has no effect"):
            configured()


def test_two_ways_in_one_file_are_reported_by_their_keys() -> None:
    """The endpoint's own message, with the file's names."""
    write("[endpoint]\nnamespace = 'home'\nbootstrap = 'a:1'")
    with pytest.raises(
        ConfigurationError, match=r"ehkafka.toml: endpoint.namespace and ehkafka.toml: endpoint.boo"
    ):
        configured(endpoint=None)


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, False), (0o600, False)])
@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'[endpoint]\nconnection_string = "{CONNECTION_STRING}"', "endpoint.connection_string"),
        (
            f'[endpoint]\nbootstrap = "a:1"\n[endpoint.properties]\nsasl.password = "{KEY}"',
            "endpoint.properties.sasl.password",
        ),
        (
            f'[endpoint]\nbootstrap = "a:1"\n[consumer]\nssl.key.password = "{KEY}"',
            "consumer.ssl.key.password",
        ),
    ],
)
def test_a_secret_that_everybody_can_read_is_reported(
    text: str, key: str, mode: int, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A warning names the key and what to do; the secret is in no message."""
    file = write(text, mode=mode)
    app = configured(endpoint=None)
    assert ("chmod 600" in caplog.text and key in caplog.text) == warned
    assert KEY not in caplog.text + repr(app.configuration()) + repr(Given.read(file))


def test_a_file_without_a_secret_may_be_read_by_all(caplog: pytest.LogCaptureFixture) -> None:
    """The path of a secret is none."""
    Given.read(write("[endpoint]\nconnection_string_file = '/mnt/key'\n[app]\ndrain_s = 5", mode=0o644))
    assert caplog.text == ""
