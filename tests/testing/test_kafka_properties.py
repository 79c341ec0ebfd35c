from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.errors import ConfigurationError
from ehkafka.testing.kafka.properties import Listener, ServerIdentity, _line, server_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRET = 'Endpoint=sb://n.servicebus.windows.net/;SharedAccessKey=a"b\\c='
IDENTITY = ServerIdentity(certificate_pem=b"certificate", key_pem=b"very private")


def properties_of(
    listeners: Mapping[str, Listener], overrides: Mapping[str, str | int] | None = None
) -> dict[str, str]:
    """Return server.properties as Java would read it, escapes included."""
    ports = {name: 20_000 + place for place, name in enumerate([*listeners, "controller"])}
    text = server_properties(
        data_directory=Path("/data"),
        listeners=listeners,
        ports=ports,
        keystores={name: Path(f"/{name}.pem") for name, each in listeners.items() if each.identity},
        overrides=overrides or {},
    )
    return dict(read_line(line) for line in text.splitlines())


def read_line(line: str) -> tuple[str, str]:
    """Undo the escapes of one line of a Java properties file."""
    key, _, value = line.partition("=")
    units = value.encode("ascii").decode("unicode_escape")
    return key, units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@pytest.mark.parametrize(
    ("listener", "protocol"),
    [
        (Listener(), "PLAINTEXT"),
        (Listener(identity=IDENTITY), "SSL"),
        (Listener(users={"u": "p"}), "SASL_PLAINTEXT"),
        (Listener(unsecured_tokens=True), "SASL_PLAINTEXT"),
        (Listener(users={"u": "p"}, identity=IDENTITY), "SASL_SSL"),
    ],
)
def test_a_listener_speaks_what_it_was_given(listener: Listener, protocol: str) -> None:
    """Users or tokens mean SASL, an identity means TLS."""
    written = properties_of({"plaintext": Listener(), "reach": listener})
    assert f"REACH:{protocol}" in written["listener.security.protocol.map"].split(",")
    assert "REACH://127.0.0.1:20001" in written["listeners"].split(",")


def test_a_connection_string_survives_both_quotings() -> None:
    """Quotes and backslashes reach the JAAS parser escaped, behind the escapes of the properties file."""
    written = properties_of({"plaintext": Listener(), "eh": Listener(users={"$ConnectionString": SECRET})})
    escaped = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    jaas = written["listener.name.eh.plain.sasl.jaas.config"]
    assert jaas.endswith(f' required user_$ConnectionString="{escaped}";')


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_stays_on_its_line_and_comes_back(value: str) -> None:
    """No character of a value can begin another property or get lost."""
    line = _line("key", value)
    assert line.isascii()
    assert line.count("\n") == 1
    assert "\r" not in line
    assert read_line(line[:-1]) == ("key", value)


@pytest.mark.parametrize("user", ["", "a b", 'a"b', "a=b", "a;b", "é\n"])
def test_a_user_name_that_jaas_cannot_spell_is_refused(user: str) -> None:
    """Such a name would change the meaning of the JAAS line."""
    with pytest.raises(ConfigurationError, match="user name"):
        Listener(users={user: "p"})


def test_secrets_are_not_shown() -> None:
    """Neither a password nor a private key is in a repr."""
    shown = repr(Listener(users={"u": SECRET}, identity=IDENTITY))
    assert "SharedAccessKey" not in shown
    assert "very private" not in shown
