"""A file that lies in the folder, which no option names: what it may not do; and what no file may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka import App, Endpoint
from ehkafka.cli.settings.given import Given
from ehkafka.cli.settings.unasked import check_credentials
from ehkafka.errors import ConfigurationError
from tests.cli.test_config import CONNECTION_STRING, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

# Each would move a key, weaken a check, run a command, load a library or read a file.
REFUSED = (
    *("bootstrap.servers", "metadata.broker.list", "client.dns.lookup", "plugin.library.paths", "oauth_cb"),
    *("ssl.engine.location", "ssl.providers", "ssl.ca.location", "ssl.ca.pem", "ssl_ca", "https.ca.location"),
    *("ssl.crl.location", "ssl.key.location", "ssl.key.password", "ssl.keystore.location", "interceptors"),
    *("ssl.certificate.verify_cb", "ssl.endpoint.identification.algorithm", "ssl.cipher.suites"),
    *("enable.ssl.certificate.verification", "enable.sasl.oauthbearer.unsecure.jwt", "debug"),
    *("sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab", "sasl.kerberos.service.name", "offset.store.path"),
    *("sasl.oauthbearer.method", "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.config"),
    *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.assertion.file", "sasl.oauthbearer.scope"),
    *("sasl.oauthbearer.metadata.authentication.type", "of.a.later.librdkafka"),
)


pytestmark = pytest.mark.usefixtures("folder")


def write(text: str) -> Path:
    """Write the file that is read unasked."""
    file = Path("ehkafka.toml")
    file.write_text(text)
    return file


def refusal(file: Path | None = None) -> str:
    """Return what the settings are refused with."""
    with pytest.raises(ConfigurationError) as caught:
        Given.read(file)
    return str(caught.value)


@pytest.mark.parametrize("table", ["endpoint.properties", "consumer"])
def test_a_file_that_no_option_names_cannot_give(table: str) -> None:
    """Where a key goes, how a broker is checked, what is loaded: only a named file may say it."""
    for name in REFUSED:
        file = write(f"[endpoint]\nbootstrap = 'a:1'\n[{table}]\n'{name}' = '/tmp/evil'")
        shown = refusal()
        assert "no option names this file" in shown, name
        assert "--config ehkafka.toml" in shown
        assert "/tmp/evil" not in shown
        Given.read(file)


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", " gssapi"])
def test_it_cannot_use_what_the_machine_may_do(mechanism: str) -> None:
    """A ticket or a managed identity is the machine's and goes to no broker that the file names."""
    write(f"[endpoint]\nbootstrap = 'a:1'\n[endpoint.properties]\nsasl.mechanisms = '{mechanism}'")
    assert "sasl.mechanisms is refused" in refusal()


def test_a_broker_of_its_own_with_its_own_login_is_free() -> None:
    """A small project keeps its local broker there."""
    write(
        "[endpoint]\nbootstrap = 'a:1'\n[endpoint.properties]\nsecurity.protocol = 'SASL_SSL'\n"
        "sasl.mechanism = 'SCRAM-SHA-256'\nsasl.username = 'me'\nsasl.password = 'mine'\nclient.id = 'x'\n"
        "[consumer]\nfetch.max.bytes = 1000\nsession.timeout.ms = 9000\nqueued.min.messages = 5"
    )
    given = Given.read()
    assert given.endpoint().client_properties()["sasl.password"] == "mine"


def test_it_gives_no_property_to_a_broker_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even a harmless one, and says so."""
    write("[endpoint.properties]\nclient.id = 'file'")
    monkeypatch.setenv("EHKAFKA_CONNECTION_STRING", CONNECTION_STRING)
    given = Given.read()
    assert "client.id" not in given.endpoint().client_properties()
    assert "are not used: a variable names the broker" in caplog.text


@pytest.mark.parametrize(
    "variable",
    [
        "EHKAFKA_PROPERTY_SASL_PASSWORD",
        "EHKAFKA_PROPERTY_SASL_OAUTHBEARER_METADATA_AUTHENTICATION_TYPE",
        "EHKAFKA_PROPERTY_SSL_KEY_PASSWORD",
        "EHKAFKA_CONSUMER_SASL_PASSWORD",
    ],
)
def test_a_login_of_the_environment_goes_to_no_broker_of_the_file(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given for another one."""
    file = write("[endpoint]\nbootstrap = 'evil.example:9092'")
    monkeypatch.setenv(variable, KEY)
    shown = refusal()
    assert variable in shown
    assert "no option names that file" in shown
    assert KEY not in shown
    Given.read(file)


def test_a_login_of_the_code_goes_to_no_broker_of_the_file() -> None:
    """An app that leaves its endpoint open expects it from its environment."""
    write("[endpoint]\nbootstrap = 'evil.example:9092'")
    app = App(group="g", start="earliest", consumer={"sasl.password": KEY})
    with pytest.raises(
        ConfigurationError, match=r"sasl.password \(code\) would be sent to a broker"
    ) as caught:
        Given.read().apply(app)
    assert KEY not in str(caught.value)


def test_a_login_of_the_file_itself_is_its_own() -> None:
    """The check looks at where each stands."""
    check_credentials(Path("f"), {"sasl.password": 1}, ["f: endpoint.properties.sasl.password"])
    with pytest.raises(ConfigurationError):
        check_credentials(Path("f"), {"sasl.password": 1}, ["EHKAFKA_PROPERTY_SASL_PASSWORD"])


def test_the_codes_broker_takes_nothing_of_it() -> None:
    """Neither an address nor a property."""
    write("[consumer]\nssl.ca.location = '/tmp/evil.pem'")
    app = App(group="g", start="earliest", endpoint=Endpoint.kafka("code:1"))
    with pytest.raises(ConfigurationError, match="no option names this file"):
        Given.read().apply(app)


@pytest.mark.parametrize(
    "command",
    [
        ["config"],
        ["check", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["tail", "t", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["lag", "t", "--group", "g", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["owners", "t", "--group", "g", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["offsets", "skip", "t/0@0", "--group", "g", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["dlq", "list", "t", "--endpoint", "127.0.0.1:1", "--timeout", "0.2"],
        ["run", "no_such_module:app"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_names_the_file_that_no_option_names(
    command: list[str], ehkafka_command: Command
) -> None:
    """On stderr, before anything is opened; not where the file was named."""
    write("[app]\ndrain_s = 5")
    assert "ehkafka reads the settings in ehkafka.toml of this folder" in ehkafka_command(*command).stderr
    assert "of this folder" not in ehkafka_command(*command, "--config", "ehkafka.toml").stderr


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"[" * 3000, "not TOML"),
        (b"[consumer]\na = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
        (b"[consumer]\n" + b"a." * 3000 + b"b = 1", "nested too deeply"),
        (b"[app]\ngroup = '\xff'", "not UTF-8"),
        (b"[app]\ngroup = 'a\0b'", "not TOML"),
        (b"[app]\ndrain_s = 1\ndrain_s = 2", "not TOML: Cannot overwrite a value"),
        (b"[app]\ndrain_s = " + b"9" * 5000, "too large"),
        (b"#" * (1024 * 1024 + 1), "more than 1048576 bytes"),
    ],
    ids=["tables", "arrays", "keys", "encoding", "NUL", "twice", "digits", "huge"],
)
def test_what_is_no_settings_file_is_reported_in_one_line(
    content: bytes, shown: str, folder: Path, ehkafka_command: Command
) -> None:
    """And the command ends with 2."""
    (folder / "f.toml").write_bytes(content)
    ended = ehkafka_command("config", "--config", "f.toml")
    assert (ended.returncode, ended.stderr.count("\n"), ended.stdout) == (2, 1, ""), ended.stderr
    assert ended.stderr.startswith("ehkafka: f.toml ")
    assert shown in ended.stderr


@pytest.mark.parametrize("place", ["/dev/stdin", "/dev/fd/0"])
def test_a_pipe_is_read_once(place: str) -> None:
    """As from a command that decrypts: `--config <(sops -d …)`."""
    ended = _config(place, b"[app]\ndrain_s = 7")
    assert ended.returncode == 0, ended.stderr
    assert f"{place}: app.drain_s" in ended.stdout.decode()
    empty = _config(place, b"")
    assert empty.returncode == 2
    assert b"a pipe that ended without a byte" in empty.stderr


def test_a_file_that_was_named_must_be_readable(folder: Path) -> None:
    """One sentence with the system's reason; the default one alone may be missing."""
    assert "prod.toml cannot be read: No such file" in refusal(folder / "prod.toml")
    assert "cannot be read: Is a directory" in refusal(folder)
    assert "a NUL" in refusal(Path("a\0b"))


def _config(place: str, content: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "ehkafka.cli", "config", "--config", place]
    environment = {**os.environ, "EHKAFKA_BOOTSTRAP": "a:1"}
    return subprocess.run(
        command, input=content, capture_output=True, check=False, env=environment, timeout=60
    )
