from __future__ import annotations

import base64
import copy
import dataclasses
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.errors import ConfigurationError
from ehkafka.settings.secret import Secret

Hidden = Callable[..., None]

labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join).filter(lambda host: not host[-1].isdigit())
keys = st.binary(min_size=16, max_size=48).map(lambda raw: base64.b64encode(raw).decode())
policies = st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,30}", fullmatch=True)
hubs = st.none() | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}", fullmatch=True)
spaces = st.text(" \t\n", max_size=2)


@st.composite
def strings(draw: st.DrawFn) -> tuple[str, dict[str, str | None]]:
    """Draw a valid connection string in any order, case, spacing and quoting, and what it says."""
    host, policy, key, hub = draw(hosts), draw(policies), draw(keys), draw(hubs)
    parts = [("Endpoint", f"sb://{host}/"), ("SharedAccessKeyName", policy), ("SharedAccessKey", key)]
    parts += [("EntityPath", hub)] if hub is not None else []
    written = []
    for name, value in draw(st.permutations(parts)):
        case = draw(st.sampled_from([str, str.lower, str.upper, str.swapcase]))
        around = [draw(spaces) for _ in range(4)]
        written.append(f"{around[0]}{case(name)}{around[1]}={around[2]}{value}{around[3]}")
    quote = draw(st.sampled_from(["", "'", '"']))
    text = ";".join(written) + draw(st.sampled_from(["", ";"]))
    return f"{draw(spaces)}{quote}{text}{quote}{draw(spaces)}", {
        "host": host,
        "policy": policy,
        "key": key,
        "hub": hub,
    }


@settings(deadline=None)
@given(drawn=strings())
def test_every_order_case_spacing_and_quoting_says_the_same(
    drawn: tuple[str, dict[str, str]], assert_hidden: Hidden
) -> None:
    """What was written into a string is read out of it, and the value shows no key."""
    text, words = drawn
    parsed = ConnectionString.parse(text)
    assert (parsed.host, parsed.port) == (words["host"], 9093)
    assert (parsed.key_name, parsed.entity_path) == (words["policy"], words["hub"])
    password = parsed.client_properties()["sasl.password"]
    assert f"SharedAccessKey={words['key']}" in password.split(";")
    assert not any(character.isspace() for character in password)
    assert ConnectionString.parse(password) == parsed, "the password is the same string, cleaned"
    assert_hidden(words["key"], parsed, dataclasses.asdict(parsed), f"{parsed.text} {parsed.text:>9}")


@st.composite
def broken(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a spoilt string, and its key: parts moved, exchanged, lost, cut, run together, a typo."""
    # 32 bytes, as the service makes them: their Base64 ends with an '='.
    key = base64.b64encode(draw(st.binary(min_size=32, max_size=32))).decode()
    whole = (
        f"Endpoint=sb://ns.example.test:9093/;SharedAccessKeyName=Root;SharedAccessKey={key};EntityPath=hub"
    )
    parts = draw(st.permutations(whole.split(";")))
    at, other = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    kind = draw(st.integers(0, 7))
    match kind:
        case 0:  # values exchanged between two names
            (name, _, value), (name2, _, value2) = parts[at].partition("="), parts[other].partition("=")
            parts[at], parts[other] = f"{name}={value2}", f"{name2}={value}"
        case 1:
            parts[at] = parts[at].partition("=")[2]  # a name lost
        case 2:
            parts[at : at + 2] = ["".join(parts[at : at + 2])]  # a separator lost
        case 3:
            parts[at] = parts[at].replace("=", ":").replace("+", " ")  # written for another format
        case 4:
            parts.insert(other, parts[at])  # twice
        case 5:
            parts[at] = f"'{parts[at]}"
        case 6:
            parts[at] = parts[at][draw(st.integers(1, 12)) :]
    text = ";".join(parts)
    start, end = sorted(draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    # A piece of a key in the hub's place reads like a hub's name: never cut there.
    match draw(st.integers(0, 4)) if kind else 4:
        case 0:
            text = text[:start]
        case 1:
            text = text[start:]
        case 2:
            text = text[:start] + text[start:end][::-1] + text[end:]
        case 3:
            text = text[:start] + draw(st.sampled_from("=;: /@#?[]\"'\n\0x9é")) + text[start:]
    return text, key


@settings(deadline=None, max_examples=200)
@given(spoilt=broken())
def test_however_a_string_is_broken_the_key_shows_nowhere(
    spoilt: tuple[str, str], assert_hidden: Hidden
) -> None:
    """Error or value, with all behind it, is free of the key, and so is an endpoint made of it."""
    text, key = spoilt
    for make in (ConnectionString.parse, Endpoint.connection_string):
        try:
            shown: object = make(text)
        except ConfigurationError as error:
            shown = error
        assert_hidden(key, shown)


@settings(deadline=None)
@given(text=st.text(max_size=80) | st.from_regex(r"([A-Za-z ]{0,12}=?[^;]{0,8};){0,5}"))
def test_garbage_gets_our_error(text: str) -> None:
    """Text of any kind is parsed or refused with the package's own error, never another one."""
    try:
        outcome = str(ConnectionString.parse(text).text)
    except ConfigurationError as error:
        outcome = str(error)
    assert outcome == "***" or outcome.startswith("connection string: ")


def test_a_clean_string_is_the_password_to_the_letter(connection_string: str) -> None:
    """Nothing of a well-formed string is rewritten, an empty last part included."""
    for text in (connection_string, connection_string + ";", connection_string + ";TransportType=Amqp"):
        assert ConnectionString.parse(text).client_properties() == {
            "bootstrap.servers": "unit-test.servicebus.windows.net:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "$ConnectionString",
            "sasl.password": text,
        }


@pytest.mark.parametrize(
    ("endpoint", "bootstrap"),
    [
        ("sb://localhost", "localhost:9092"),
        ("sb://localhost:5672/", "localhost:9092"),
        ("sb://emulator:19092", "emulator:19092"),
        ("sb://127.0.0.1", "127.0.0.1:9092"),
        ("sb://[::1]:9092", "[::1]:9092"),
    ],
)
def test_the_emulator_is_reached_without_tls(endpoint: str, bootstrap: str, key: str) -> None:
    """UseDevelopmentEmulator leads to its own Kafka port, unless the string names a Kafka port."""
    text = f"Endpoint={endpoint};SharedAccessKeyName=Root;SharedAccessKey={key};UseDevelopmentEmulator=true;"
    parsed = ConnectionString.parse(text)
    properties = parsed.client_properties()
    assert parsed.is_emulator
    assert (properties["bootstrap.servers"], properties["security.protocol"]) == (bootstrap, "SASL_PLAINTEXT")
    assert properties["sasl.password"] == text


@pytest.mark.parametrize(
    ("port", "used"), [(":5671", 9093), (":443", 9093), (":9093", 9093), (":9094", 9094)]
)
def test_ports_of_other_protocols_are_not_used(port: str, used: int, key: str) -> None:
    """A port for AMQP or HTTPS in the string does not become the Kafka port."""
    text = f"Endpoint=amqps://ns.example.test{port};SharedAccessKeyName=Root;SharedAccessKey={key}"
    assert ConnectionString.parse(text).port == used


@pytest.mark.parametrize(
    "domain", ["servicebus.windows.net", "servicebus.chinacloudapi.cn", "servicebus.usgovcloudapi.net"]
)
def test_every_cloud_is_reached_over_tls(domain: str, key: str) -> None:
    """The sovereign clouds differ by domain alone, and no namespace is ever reached as an emulator."""
    text = f"Endpoint=sb://NS.{domain}/;SharedAccessKeyName=Root;SharedAccessKey={key};EntityPath=hub"
    parsed = ConnectionString.parse(text)
    assert (parsed.host, parsed.port, parsed.entity_path) == (f"ns.{domain}", 9093, "hub")
    assert parsed.client_properties()["security.protocol"] == "SASL_SSL"
    with pytest.raises(ConfigurationError, match="and the host of a namespace"):
        ConnectionString.parse(f"{text};UseDevelopmentEmulator=true")


E_ = "Endpoint=sb://ns.example.test/"
N_ = "SharedAccessKeyName=Root"
K_ = "SharedAccessKey={key}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ('""', "it is empty"),
        (f'"{E_};{N_};{K_}', "never closed"),
        ('"', "never closed"),
        (f"{N_};{K_}", "Endpoint is missing"),
        (f"{E_};{K_}", "SharedAccessKeyName is missing"),
        (f"{E_};{N_}", "SharedAccessKey is missing"),
        (E_, "SharedAccessKeyName and SharedAccessKey are missing"),
        (f"{E_};{N_};SharedAccessKey=", "SharedAccessKey has no value"),
        (f"{E_};{N_};{K_};EntityPath= ", "EntityPath has no value"),
        (f"{E_};{N_};{K_};{K_}", "SharedAccessKey is given twice"),
        (f"{E_};{N_};{K_};sharedaccesskey=x", "SharedAccessKey is given twice"),
        (f"{E_};{N_};{{key}}", "the name of part 3|SharedAccessKey is missing"),
        (f"{E_};{N_};SharedAccessKey {{key0}}", "part 3 (between ';') has no '='"),
        (f"{E_};{N_};SharedAccesKey={{key}}", "part 3 is unknown; did you mean SharedAccessKey?"),
        (f"{E_};{N_};{K_};UseDevelopmentEmulater=true", "did you mean UseDevelopmentEmulator?"),
        (f"{E_};{N_};{K_};UseDevelopmentEmulator={{key}}", "neither true nor false"),
        (
            f"{E_};SharedAccessSignature=SharedAccessSignature sr=x",
            "SharedAccessSignature contains|contains a space",
        ),
        (f"{E_};SharedAccessSignature={{key}}", "SharedAccessSignature, which the Kafka endpoint does not"),
        (f"{E_};{N_};SharedAccessKey=ab\n{{key}}", "the value of SharedAccessKey contains a space"),
        (f"{E_};{N_};SharedAccessKey=a\0{{key}}", "the value of SharedAccessKey contains a space"),
        (f"Endpoint=ns.example.test;{N_};{K_}", "does not begin with sb://"),
        (f"Endpoint=http://ns.example.test;{N_};{K_}", "does not begin with sb://"),
        (f"Endpoint=sb://;{N_};{K_}", "does not begin with sb://"),
        (
            f"Endpoint=sb://ns.example.test:{{key}};{N_};{K_}",
            "Endpoint is not an address|a host and a port only",
        ),
        (f"Endpoint=sb://[{{key}};{N_};{K_}", "Endpoint is not an address"),
        (f"Endpoint=sb://me:{{key}}@ns.example.test;{N_};{K_}", "Endpoint"),
        (f"Endpoint=sb://ns_{{key}};{N_};{K_}", "a host and a port only|has a path"),
        (f"Endpoint=sb://ns+1.example.test;{N_};{K_}", "without other characters"),
        (f"Endpoint=sb://me@ns.example.test;{N_};{K_}", "must be sb://, a host and a port only"),
        (f"Endpoint=sb://ns.example.test?x;{N_};{K_}", "must be sb://, a host and a port only"),
        (
            f"Endpoint=sb://ns.servicebus.windows.net;{N_};{K_};UseDevelopmentEmulator=true",
            "UseDevelopmentEmulator=true and the host of a namespace",
        ),
        (
            f"Endpoint=sb://ns.example.test/hub;{N_};{K_}",
            "has a path: remove it, and name the event hub in EntityPath",
        ),
        (f"Endpoint=sb://ns.example.test:0;{N_};{K_}", "the port of Endpoint is 0"),
        ("/run/secrets/event-hubs", "if it is the path of a file, give it as pathlib.Path"),
        (f"{E_};{N_};{K_}EntityPath=hub", "SharedAccessKey continues after an '='; is a ';' missing"),
        (
            f"{E_};SharedAccessKeyName={{key}};SharedAccessKey=Root",
            "SharedAccessKeyName continues after an '='",
        ),
        (f"{E_};{N_}{K_};{K_}", "SharedAccessKeyName continues after an '='"),
        (f"{E_};{N_};{K_};EntityPath={{key}}", "EntityPath is not the name of an event hub"),
        (f"{E_};{N_};{K_};EntityPath=hub/Partitions/0", "EntityPath is not the name of an event hub"),
        (f"{E_};{N_};{K_};EntityPath=" + "x" * 257, "EntityPath is not the name of an event hub"),
        ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={key}", "a storage account"),
        ("BlobEndpoint=https://a.blob.core.windows.net/;SharedAccessSignature={key}", "a storage account"),
        (f"HostName=a.azure-devices.net;{N_};{K_}", "an IoT hub; take its"),
    ],
)
def test_what_is_wrong_is_named_and_the_key_is_not(
    text: str, words: str, key: str, assert_hidden: Hidden
) -> None:
    """Each way to break a string gets its own sentence, and none of them repeats the key."""
    with pytest.raises(ConfigurationError) as caught:
        ConnectionString.parse(text.replace("{key0}", key.rstrip("=")).replace("{key}", key))
    assert any(one in str(caught.value) for one in words.split("|")), str(caught.value)
    assert_hidden(key, caught.value)


def test_the_value_cannot_be_pickled_and_copies_without_showing(connection_string: str) -> None:
    """A pickle would carry the key out of the process, so there is none; a copy is the same secret."""
    parsed = ConnectionString.parse(connection_string)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(parsed, protocol)
    assert copy.deepcopy(parsed) == parsed
    assert copy.copy(parsed.text) is parsed.text


def test_a_key_in_the_place_of_its_name_does_not_show(key: str) -> None:
    """Name and key exchanged cannot be distinguished from right when the key has lost its padding."""
    parsed = ConnectionString.parse(f"{E_};SharedAccessKeyName={key.rstrip('=').replace('/', '')};{K_}")
    assert parsed.key_name not in repr(parsed)


def test_a_secret_compares_by_what_it_hides() -> None:
    """Equal texts are equal secrets, so that a rotation can be noticed; a plain text is never equal."""
    assert Secret("a") == Secret("a")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
    assert Secret("a") != "a"
    assert f"{Secret('abc')} {Secret('abc')!r}" == "*** ***"
