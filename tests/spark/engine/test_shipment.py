"""What is sent to executors: handlers by value or name, and no secret."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.tasks.shipment import pack, unpack
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyspark")


def test_a_function_inside_of_another_travels_by_value(lab: Any) -> None:
    """What is unpacked handles as what was packed, named order functions being the very same ones."""
    app, factor = lab.make_app(max_age=None), 3

    @app.handler("t", order_by=ehkafka.by_partition, on_failure=ehkafka.DeadLetter("dead"))
    def handle(record: Any) -> int:
        return int(record) * factor

    found = unpack(pack(lab.parts_of(app)))
    (spec,) = found["specs"]
    assert spec.function(14) == 42
    assert spec.order_by is ehkafka.by_partition
    assert spec.on_failure == ehkafka.DeadLetter("dead")
    assert found["settings"]["group"] == "g"


def test_a_payloads_type_travels_with_its_handler(lab: Any) -> None:
    """Also one that is only local; what is unpacked decodes as what was packed."""
    app = lab.make_app(max_age=None)

    @dataclass
    class Reading:
        celsius: float

    @app.handler("t")
    def handle(reading: Reading | None) -> float:
        return -1.0 if reading is None else reading.celsius

    (spec,) = unpack(pack(lab.parts_of(app)))["specs"]
    called = spec.of_record(spec.function)
    assert called(SimulatedMessage("t", 0, 0, value=b'{"celsius": 1.5}')) == 1.5
    assert called(SimulatedMessage("t", 0, 0, value=None)) == -1.0
    with pytest.raises(ehkafka.RejectRecord, match="celsius: Expected `float`, got `str`"):
        called(SimulatedMessage("t", 0, 0, value=b'{"celsius": "x"}'))


def test_a_struct_that_loses_its_fields_is_refused(lab: Any) -> None:
    """By value it arrives empty; handlers would be given structs with nothing in them."""
    app = lab.make_app(max_age=None)

    class Local(msgspec.Struct):
        celsius: float

    @app.handler("t")
    def handle(reading: Local) -> None: ...

    program = (
        "import sys; from ehkafka.spark.engine.tasks.shipment import unpack; unpack(sys.stdin.buffer.read())"
    )
    packed = pack(lab.parts_of(app))
    ended = subprocess.run([sys.executable, "-c", program], input=packed, capture_output=True, check=False)
    assert b"Local arrived in another process without its fields: define the type at" in ended.stderr


@pytest.mark.parametrize(
    "what", ["handler", "decoder", "middleware", "on_error", "on_worker_start", "dead letters"]
)
def test_what_cannot_be_pickled_is_named(lab: Any, what: str) -> None:
    """A handler that cannot be pickled is one error on the driver, which names it and says what to do."""
    app, lock = lab.make_app(), threading.Lock()

    def guilty(*_arguments: object) -> None:
        with lock:
            pass

    function = guilty if what == "handler" else lambda record: None
    policy = ehkafka.DeadLetter(guilty) if what == "dead letters" else None
    app.handler("t", on_failure=policy, **({"decoder": guilty} if what == "decoder" else {}))(function)
    if what == "middleware":
        app.use(guilty)
    elif what == "on_error":
        app.on_error(guilty)
    elif what == "on_worker_start":
        app.on_worker_start(guilty)
    named = {
        "handler": "handler 'guilty'",
        "decoder": "what handler '<lambda>' decodes to",
        "middleware": "middleware 1 .'guilty'.",
        "dead letters": "the dead letters' function",
    }
    with pytest.raises(
        ConfigurationError, match=rf"^{named.get(what, what)}.*cannot be sent.*on_worker_start"
    ):
        pack(lab.parts_of(app))


def test_a_module_that_executors_lack_is_named(lab: Any, tmp_path: Path) -> None:
    """Where a handler's module is missing, the error says so and how it gets there."""
    (tmp_path / "shop_of_tests.py").write_text("def handle(record):\n    return 'handled'\n")
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import ehkafka, shop_of_tests
from ehkafka.spark.engine.tasks.shipment import pack
app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"))
app.handler("t")(shop_of_tests.handle)
sys.stdout.buffer.write(pack(app._options(), folders=tuple(sys.argv[1:])))
"""
    packed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    with pytest.raises(ConfigurationError, match=r"cannot import 'shop_of_tests'.*--py-files"):
        unpack(packed)
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=True
    ).stdout
    before = list(sys.path)
    try:
        assert unpack(found)["specs"][0].function(None) == "handled"
    finally:
        sys.path[:] = before
        sys.modules.pop("shop_of_tests", None)


def test_a_module_that_lacks_its_settings_says_how_they_get_there(tmp_path: Path) -> None:
    """An app's module often reads the environment, which is the driver's own; executors import it too."""
    (tmp_path / "needy_of_tests.py").write_text("import os\nNAME = os.environ['NEEDY']\ndef handle(r): ...\n")
    code = """
import sys, ehkafka, needy_of_tests
from ehkafka.spark.engine.tasks.shipment import pack
app = ehkafka.App(group="g", start="earliest", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"))
app.handler("t")(needy_of_tests.handle)
sys.stdout.buffer.write(pack(app._options(), folders=(sys.argv[1],)))
"""
    environment = {**os.environ, "NEEDY": "yes", "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", code, str(tmp_path)]
    packed = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    before = list(sys.path)
    try:
        with pytest.raises(ConfigurationError, match=r"'NEEDY'.*environment variables"):
            unpack(packed)
    finally:
        sys.path[:] = before


def test_no_secret_travels(lab: Any) -> None:
    """Neither the endpoint nor the consumer's properties are in what is sent."""
    secret = "hunter2-" * 4
    app = ehkafka.App(
        group="g",
        start=lambda _topic, _partition: "earliest",
        endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1", {"sasl.password": secret}),
        consumer={"ssl.key.password": secret},
    )
    app.handler("t", start="latest", to="out")(print)
    packed = pack(lab.parts_of(app))
    assert secret.encode() not in packed
    assert secret.encode() not in pickle.loads(packed)[1]
