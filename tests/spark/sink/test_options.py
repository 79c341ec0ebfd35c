from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.spark.sink.options import sink_options
from ehkafka.spark.sink.place import Place

URL = "https://shop.blob.core.windows.net/homes"
GOOD = {"containerUrl": URL, "path": "minutes"}
KEY = "c2VjcmV0c2VjcmV0"


def test_options_in_any_case_become_values() -> None:
    """Spark hands options over in lower case; what Spark itself adds is no stranger."""
    given = {"CONTAINERURL": URL, "path": "/homes/minutes/", "fileformat": "Parquet", "blockbytes": "65536"}
    found = sink_options({**given, "checkpointlocation": "/tmp/c", "queryname": "q"})
    assert (found.path, found.file_format, found.compression) == ("homes/minutes", "parquet", "snappy")
    assert found.block_bytes == 65536
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"containerUrl": ""}, "Option containerUrl is empty"),
        ({"containerUrl": None}, "one way to its container"),
        ({"connectionStringEnv": "A", "container": "homes"}, "containerUrl and connectionStringEnv"),
        ({"connectionStringEnv": "A", "containerUrl": None}, "needs the container's name"),
        ({"container": "homes"}, "container does not work with containerUrl"),
        ({"credentialFactory": "a:b", "credential": "cli"}, "leave credential and clientId out"),
        ({"credential": "robot"}, "use one of default"),
        ({"containerUrl": "http://shop.blob.core.windows.net/homes"}, "use https"),
        ({"containerUrl": "https://shop.blob.core.windows.net/"}, "not the name of one container"),
        ({"path": None}, r"names the folder.*\.start\("),
        ({"path": "wasbs://homes@shop/minutes"}, "give the container by containerUrl"),
        ({"path": "homes/../other"}, "has a part"),
        ({"path": "homes/_hidden"}, "underscore"),
        ({"fileFormat": "csv"}, "give jsonl or parquet"),
        ({"compression": "zstd"}, "give none or gzip"),
        ({"blockBytes": "12"}, "from 65536"),
        ({"blockBytes": "8MB"}, "'8MB' is not understood"),
        ({"pathh": "x"}, "no option 'pathh'; did you mean path"),
        ({"kafka.acks": "1"}, "no option 'kafka.acks'; the options are path"),
    ],
)
def test_what_is_wrong_is_refused_with_the_option_and_the_next_step(
    change: dict[str, str | None], reported: str
) -> None:
    """One sentence that names the option, before anything runs."""
    with pytest.raises(ConfigurationError, match=reported):
        sink_options({name.lower(): value for name, value in {**GOOD, **change}.items() if value is not None})


@pytest.mark.parametrize(
    "secret",
    [
        {"connectionString": f"AccountName=shop;AccountKey={KEY}"},
        {"containerUrl": f"{URL}?sv=1&sig={KEY}"},
        {"accountKey": KEY},
        {"path": f"AccountKey={KEY}"},
        {"sasToken": KEY},
    ],
)
def test_a_secret_among_the_options_is_refused_and_not_repeated(secret: dict[str, str]) -> None:
    """The advice names the options that take a name instead."""
    with pytest.raises(ConfigurationError, match="connectionStringEnv") as refused:
        sink_options({**GOOD, **secret})
    assert KEY not in str(refused.value)


def test_a_secret_that_is_missing_in_one_process_is_named_with_the_fix() -> None:
    """An executor without the variable says so: the driver's environment is not its own."""
    place = Place.from_options({"connectionStringEnv": "STORAGE", "container": "homes"})
    code = (
        "import pickle, sys; place = pickle.load(sys.stdin.buffer)\n"
        "try: place.open_client({})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(place), capture_output=True, check=True
    )
    reported = found.stdout.decode()
    assert reported.startswith(
        "ConfigurationError Option connectionStringEnv: the variable STORAGE is not set in this process"
    )
    assert "on the driver's machine and on every executor's" in reported


def test_a_file_that_cannot_be_read_is_named() -> None:
    """The path is no secret."""
    place = Place.from_options({"containerUrlFile": "/nowhere/url"})
    with pytest.raises(ConfigurationError, match=r"'/nowhere/url' cannot be read \(FileNotFoundError\)"):
        place.open_client({})


def test_a_secret_of_the_wrong_kind_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of another service in the variable is distinguished without showing it."""
    monkeypatch.setenv("STORAGE", f"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKey={KEY}")
    place = Place.from_options({"connectionStringEnv": "STORAGE", "container": "homes"})
    with pytest.raises(
        ConfigurationError, match="Option connectionStringEnv: the text is not the connection string"
    ) as refused:
        place.open_client({})
    assert KEY not in str(refused.value)
    assert refused.value.__cause__ is None
