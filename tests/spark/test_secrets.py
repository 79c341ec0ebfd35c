"""Secrets are named, never given."""

from __future__ import annotations

import ast
import pickle
import sys
import types
from pathlib import Path

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.spark import secrets
from ehkafka.spark.source.options import options_from

KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
STRING = f"Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=x;SharedAccessKey={KEY}"
TOPIC = {"subscribe": "readings"}


@pytest.fixture
def factories(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Return a module that holds a user's factories."""
    module = types.ModuleType("home_factories")
    monkeypatch.setitem(sys.modules, "home_factories", module)
    return module


@pytest.mark.parametrize(
    "given",
    [
        {"connectionString": STRING},
        {"subscribe": STRING},
        {"kafka.sasl.password": KEY},
        {"kafka.sasl.jaas.config": f'x required password="{KEY}";'},
        {"kafka.ssl.key.pem": KEY},
        {"anything": f"AccountKey={KEY}"},
        {"kafka.ssl.keystore.key": KEY},
        {"kafka.sasl.oauthbearer.assertion.private.key.passphrase": KEY},
        {"kafka.sasl.oauthbearer.token.endpoint.url": f"https://me:{KEY}@login.example/token"},
        {"kafka.sasl.oauthbearer.token.endpoint.url": f"https://login.example/t?client_secret={KEY}"},
        {"kafka.sasl.oauthbearer.token.endpoint.url": f"https://login.example/t?sig={KEY}"},
        {"kafka.ssl.crl.location": f"-----BEGIN EC PRIVATE KEY-----\n{KEY}"},
        {"accountKey": KEY},
        {"kafka.accountKey": KEY},
        {"kafka.connection.string": KEY},
        {"kafka.access-key": KEY},
        {"sas_token": KEY},
        {"client.secret": KEY},
        {"sharedAccessKey": KEY},
        {"kafka.sasl.oauthbearer.client.credentials.client.secret": KEY},
        {"kafka.sasl.oauthbearer.config": f"secret={KEY}"},
        {"kafka.ssl.keystore.password": KEY},
        {"kafka.client.id": f"sv=2025-01-01&sig={KEY}"},
        {"kafka.client.rack": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{KEY}"},
        {"groupId": "a" * 43 + "="},
        {"startingOffsets": "a" * 86 + "=="},
    ],
)
def test_a_secret_among_the_options_is_refused_and_not_repeated(given: dict[str, str]) -> None:
    """Trap: Spark shows options in plans and logs, so a literal secret is refused with what to do instead."""
    with pytest.raises(ConfigurationError) as caught:
        options_from({"kafka.bootstrap.servers": "localhost:9092", **given})
    [(name, value)] = given.items()
    assert name.lower() in str(caught.value).lower()
    assert "connectionStringEnv" in str(caught.value)
    assert value not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "Plugin.Library.Paths",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
    ],
)
def test_an_option_that_loads_code_is_refused(name: str) -> None:
    """Options are data: they come out of tables and notebooks. Code stands in a factory."""
    given = {"kafka.bootstrap.servers": "localhost:9092", f"kafka.{name}": "/tmp/evil.so", **TOPIC}
    with pytest.raises(ConfigurationError, match=r"on every executor.*endpointFactory"):
        options_from(given)


def test_an_unknown_property_is_refused() -> None:
    """Its value would be shown, and it may be anything."""
    given = {"kafka.bootstrap.servers": "localhost:9092", "kafka.my.own": "hunter2", **TOPIC}
    with pytest.raises(ConfigurationError, match=r"kafka\.my\.own is no property") as caught:
        options_from(given)
    assert "hunter2" not in str(caught.value)
    given = {"kafka.bootstrap.servers": "localhost:9092", "kafka.fetch.wait.mx.ms": "1", **TOPIC}
    with pytest.raises(ConfigurationError, match=r"did you mean fetch\.wait\.max\.ms\?"):
        options_from(given)


def test_where_a_token_is_fetched_is_no_secret() -> None:
    """The address of an identity provider may stand among the options, as the JVM connector's may."""
    name = "sasl.oauthbearer.token.endpoint.url"
    given = {"kafka.bootstrap.servers": "localhost:9092", f"kafka.{name}": "https://login.example/token"}
    options = options_from({**given, **TOPIC})
    assert dict(options.endpoint.properties) == {name: "https://login.example/token"}


def test_a_variable_is_read_where_the_endpoint_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """What travels to executors names the variable; the string is read there."""
    named = options_from({"connectionStringEnv": "HOME_STRING", **TOPIC}).endpoint
    monkeypatch.setenv("HOME_STRING", STRING)
    assert KEY.encode() not in pickle.dumps(named)
    assert KEY not in repr(named)
    endpoint = pickle.loads(pickle.dumps(named)).endpoint()
    assert endpoint.name == "home.servicebus.windows.net"
    assert endpoint.client_properties()["sasl.password"] == STRING
    assert named.endpoint() is endpoint


def test_a_missing_variable_says_where_it_must_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credential in an executor: the variable and the way to set it there are named."""
    monkeypatch.delenv("NOT_HERE", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"NOT_HERE is not set.*driver's machine and on every executor's"
    ):
        options_from({"connectionStringEnv": "NOT_HERE", **TOPIC}).endpoint.endpoint()


def test_no_message_sends_a_secret_through_sparks_configuration() -> None:
    """Everybody who reads an event log would see what stands under `spark.executorEnv`."""
    package = Path(ehkafka.__file__).parent
    named = {
        path.name
        for path in package.rglob("*.py")
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.Constant) and "executorEnv" in str(one.value)
    }
    # Reads what the user has set there, and says so in its docstring.
    assert named == {"workers_python.py"}


def test_a_file_is_read_where_the_endpoint_is_made(tmp_path: Path) -> None:
    """A mounted secret is named by its path."""
    file = tmp_path / "string"
    file.write_text(STRING)
    endpoint = options_from({"connectionStringFile": str(file), **TOPIC}).endpoint.endpoint()
    assert endpoint.credential is not None
    with pytest.raises(ConfigurationError, match="does not exist"):
        options_from({"connectionStringFile": str(tmp_path / "none"), **TOPIC}).endpoint.endpoint()


def test_a_credential_factory_is_called_where_the_endpoint_is_made(factories: types.ModuleType) -> None:
    """Any azure-identity credential: a function that makes it is named."""

    class Credential:
        def get_token(self, *_scopes: str) -> None: ...

    factories.make = Credential  # type: ignore[attr-defined]
    named = options_from({"namespace": "home", "credentialFactory": "home_factories:make", **TOPIC}).endpoint
    assert named.endpoint().name == "home.servicebus.windows.net"


def test_an_endpoint_factory_makes_what_options_cannot_say(factories: types.ModuleType) -> None:
    """A broker with a password of its own is described in code that is on every executor."""
    factories.make = lambda: ehkafka.Endpoint.kafka("localhost:1", {"sasl.password": KEY})  # type: ignore[attr-defined]
    factories.wrong = lambda: "no endpoint"  # type: ignore[attr-defined]
    named = options_from({"endpointFactory": "home_factories:make", **TOPIC}).endpoint
    assert named.endpoint().client_properties()["sasl.password"] == KEY
    assert KEY.encode() not in pickle.dumps(named)
    with pytest.raises(
        ConfigurationError, match=r"returned a value of type str: return an ehkafka\.Endpoint"
    ):
        options_from({"endpointFactory": "home_factories:wrong", **TOPIC}).endpoint.endpoint()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("home_factories", "does not name a function"),
        ("no_such_module_here:make", "Every executor needs this module"),
        ("home_factories:none", "has no none"),
        ("home_factories:broken", "raised ValueError"),
    ],
)
def test_a_factory_that_fails_is_named_and_its_text_is_not(
    factories: types.ModuleType, path: str, text: str
) -> None:
    """The error of a factory may hold what it read."""

    def broken() -> None:
        raise ValueError(STRING)

    factories.broken = broken  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match=text) as caught:
        secrets.called("credentialFactory", path)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
