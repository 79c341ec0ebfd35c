from __future__ import annotations

import base64
import http.server
import json
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.embedded.topics import produce
from ehkafka.errors import ConfigurationError
from ehkafka.spark.jvm_options import kafka_options
from ehkafka.testing.kafka.properties import Listener
from tests.kit.brokers import running
from tests.kit.server_identity import issue_identity
from tests.kit.unsecured_token import unsecured_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing.kafka.broker import KafkaBroker

KEY = "cmlnaHQtcmlnaHQtcmlnaHQtcmlnaHQ="
CONNECTION_STRING = (
    f"Endpoint=sb://here.servicebus.windows.net/;SharedAccessKeyName=app;SharedAccessKey={KEY}"
)
PRINCIPAL = {"AZURE_TENANT_ID": "my-tenant", "AZURE_CLIENT_ID": "my-client", "AZURE_CLIENT_SECRET": 'a"b\\c'}


def jaas(options: Mapping[str, str]) -> str:
    """Return the line that signs in."""
    return options["kafka.sasl.jaas.config"]


def test_a_connection_string_becomes_the_connectors_options() -> None:
    """The user name is the literal of Event Hubs, the password the whole string; nothing shows it."""
    options = kafka_options(ehkafka.Endpoint.connection_string(CONNECTION_STRING))
    assert options["kafka.bootstrap.servers"] == "here.servicebus.windows.net:9093"
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "PLAIN"
    assert jaas(options) == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="$ConnectionString" password="{CONNECTION_STRING}";'
    )
    assert options["kafka.fetch.max.wait.ms"] == "10"
    assert options["kafka.metadata.max.age.ms"] == "180000"
    assert KEY not in repr(options)


def test_the_emulator_and_a_plain_broker_need_no_more_than_their_address() -> None:
    """No TLS where there is none; no sign-in where there is none."""
    emulator = CONNECTION_STRING.replace("here.servicebus.windows.net", "localhost")
    options = kafka_options(
        ehkafka.Endpoint.connection_string(f"{emulator};UseDevelopmentEmulator=true"), fast=False
    )
    assert options["kafka.security.protocol"] == "SASL_PLAINTEXT"
    assert "kafka.fetch.max.wait.ms" not in options
    plain = kafka_options(
        ehkafka.Endpoint.kafka("broker:9092", {"check.crcs": False, "log_level": 3}), fast=False
    )
    assert dict(plain) == {"kafka.bootstrap.servers": "broker:9092", "kafka.check.crcs": "false"}


def test_what_the_user_set_wins_over_the_fast_settings() -> None:
    """An endpoint's own properties are translated and kept."""
    options = kafka_options(ehkafka.Endpoint.kafka("broker:9092", {"fetch.wait.max.ms": 77}))
    assert options["kafka.fetch.max.wait.ms"] == "77"


@pytest.mark.parametrize("prefix", ["kafkashaded", "kafkashaded."])
def test_a_managed_platforms_shaded_classes_are_named(prefix: str) -> None:
    """Some platforms ship Kafka's classes under names of their own."""
    endpoint = ehkafka.Endpoint.connection_string(CONNECTION_STRING)
    assert jaas(kafka_options(endpoint, shaded_prefix=prefix)).startswith(
        "kafkashaded.org.apache.kafka.common"
    )
    with pytest.raises(ConfigurationError, match="shaded_prefix"):
        kafka_options(endpoint, shaded_prefix='x" y')


def test_scram_has_its_own_module() -> None:
    """The three mechanisms with a password that both clients have."""
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me"}
    options = kafka_options(ehkafka.Endpoint.kafka("broker:9092", {**settings, "sasl.password": "p"}))
    assert jaas(options).startswith("org.apache.kafka.common.security.scram.ScramLoginModule required")


def test_a_service_principal_with_a_secret_signs_in_by_client_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Java's own login asks Entra ID of the right cloud; quotes in the secret are escaped."""
    for name, value in PRINCIPAL.items():
        monkeypatch.setenv(name, value)
    with ehkafka.Endpoint.entra("ns.servicebus.chinacloudapi.cn", "service_principal") as endpoint:
        options = kafka_options(endpoint, shaded_prefix="kafkashaded.")
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == (
        "https://login.chinacloudapi.cn/my-tenant/oauth2/v2.0/token"
    )
    assert jaas(options) == (
        "kafkashaded.org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="my-client" clientSecret="a\\"b\\\\c" scope="https://ns.servicebus.chinacloudapi.cn/.default";'
    )


@pytest.mark.parametrize(
    ("make", "reported"),
    [
        (
            lambda: ehkafka.Endpoint.entra("home", "managed_identity"),
            r"has managed_identity.*format\(.ehkafka.\)",
        ),
        (lambda: ehkafka.Endpoint.entra("home"), "has default"),
        (lambda: ehkafka.Endpoint.entra("home", "service_principal"), "AZURE_TENANT_ID and .* are not set"),
        (
            lambda: ehkafka.Endpoint.kafka(
                "b:1", {"security.protocol": "SASL_SSL", "sasl.mechanisms": "GSSAPI"}
            ),
            "signs in by GSSAPI",
        ),
        (
            lambda: ehkafka.Endpoint.kafka("b:1", {"ssl.key.location": "/k"}),
            r"no equivalent of ssl\.key\.location",
        ),
    ],
)
def test_what_needs_a_java_class_is_refused_and_points_to_the_source(
    make: Callable[[], ehkafka.Endpoint], reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with the way out."""
    for name in PRINCIPAL:
        monkeypatch.delenv(name, raising=False)
    with make() as endpoint, pytest.raises(ConfigurationError, match=reported) as refused:
        kafka_options(endpoint)
    assert 'format("ehkafka")' in str(refused.value)


IDENTITY = issue_identity()


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaBroker]:
    """Run a broker with listeners as Event Hubs has them: PLAIN over TLS, and tokens."""
    from ehkafka.testing.kafka.broker import KafkaBroker  # noqa: PLC0415 - only when a test asks for it

    plain = Listener(users={"$ConnectionString": CONNECTION_STRING}, identity=IDENTITY)
    with running(KafkaBroker(listeners={"keys": plain, "tokens": Listener(unsecured_tokens=True)})) as broker:
        yield broker


@pytest.fixture
def topic(guarded: KafkaBroker) -> str:
    """Return a topic of two partitions with 100 records."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    guarded.create_topic(name, 2)
    produce(guarded.bootstrap, name, [(b"k%d" % n, b"v%d" % n) for n in range(100)])
    return name


@pytest.mark.broker
def test_the_real_connector_reads_with_a_connection_string_and_keeps_it_to_itself(
    spark: SparkSession,
    connector_jars: list[Path],
    spark_events: Path,
    guarded: KafkaBroker,
    topic: str,
    tmp_path: Path,
) -> None:
    """Over TLS and SASL PLAIN; the key is in no plan, event log, progress or checkpoint."""
    if not connector_jars:
        pytest.skip("the connector's JARs are not there")
    authority = tmp_path / "ca.pem"
    authority.write_bytes(IDENTITY.ca_pem)
    moved = {"bootstrap.servers": guarded.bootstrap_for("keys"), "ssl.ca.location": str(authority)}
    endpoint = ehkafka.Endpoint.connection_string(CONNECTION_STRING, properties=moved)
    options = {**kafka_options(endpoint), "subscribe": topic, "startingOffsets": "earliest"}
    read = spark.readStream.format("kafka").options(**options).load()
    name, checkpoint = f"q{uuid.uuid4().hex[:8]}", tmp_path / "checkpoint"
    stream = read.selectExpr("cast(value as string) value").writeStream.format("memory").queryName(name)
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    assert spark.table(name).count() == 100
    seen = [
        read._jdf.queryExecution().toString(),
        query._jsq.explainInternal(True),
        *(json.dumps(each.json) for each in query.recentProgress),
        *(path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()),
        *(path.read_text(errors="replace") for path in spark_events.rglob("*") if path.is_file()),
    ]
    assert len(seen) > 5
    assert not [text for text in seen if KEY in text]


class TokenServer:
    """Entra ID's token endpoint for client credentials, on loopback."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.logins: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.logins.append(self.headers["Authorization"])
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                # Java wants a signature, of whatever it may be.
                token = unsecured_token("my-client") + "c2ln"
                body = json.dumps(
                    {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                """Stay quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.mark.broker
def test_the_real_connector_asks_for_a_token_as_a_service_principal(
    spark: SparkSession,
    connector_jars: list[Path],
    guarded: KafkaBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The names of classes and settings are those that the Java client knows; only the address is moved.

    It goes as far as the broker, which takes no token with a signature: Java takes none without.
    """
    if not connector_jars:
        pytest.skip("the connector's JARs are not there")
    for name, value in PRINCIPAL.items():
        monkeypatch.setenv(name, value)
    moved = {"bootstrap.servers": guarded.bootstrap_for("tokens"), "security.protocol": "SASL_PLAINTEXT"}
    server = TokenServer()
    try:
        with ehkafka.Endpoint.entra("home", "service_principal", properties=moved) as endpoint:
            options = {**kafka_options(endpoint), "subscribe": topic, "fetchOffset.numRetries": "1"}
        options["kafka.sasl.oauthbearer.token.endpoint.url"] = server.url
        with pytest.raises(Exception, match=r"(?i)authentication"):
            spark.read.format("kafka").options(**options).load().count()
    finally:
        server.close()
    assert "grant_type=client_credentials" in server.bodies[0]
    assert "scope=https%3A%2F%2Fhome.servicebus.windows.net%2F.default" in server.bodies[0]
    assert base64.b64decode(server.logins[0].removeprefix("Basic ")).decode() == 'my-client:a"b\\c'
