"""The page on tables: its code runs as it stands there, with the libraries that it names."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.testing import EmbeddedBroker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402 - after the skip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.azurite import Azurite

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "tables.md").read_text()
POLARS, DUCKDB, PANDAS, BLOB, NIGHTLY = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    """Return a broker with the readings of two homes, which the environment names."""
    with EmbeddedBroker({"readings": 2}) as embedded:
        produce(embedded, 3)
        monkeypatch.setenv("EHKAFKA_BOOTSTRAP", embedded.bootstrap)
        yield embedded


def produce(broker: EmbeddedBroker, count: int) -> None:
    """Append so many readings of each home."""
    for number in range(2):
        pairs = [(f"home-{number}", json.dumps({"celsius": 20 + number})) for _ in range(count)]
        broker.produce("readings", pairs, partition=number)


def executed(*blocks: str) -> dict[str, Any]:
    """Run blocks one after the other, as one program; return its names."""
    names: dict[str, Any] = {"endpoint": ehkafka.Endpoint.from_env()}
    for block in blocks:
        exec(compile(block, "tables.md", "exec"), names)
    return names


def test_polars_reads_the_last_hour(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and values as text, a number of each value, its mean for each home."""
    pytest.importorskip("polars")
    names = executed(POLARS)
    means = names["celsius"].group_by("home").mean().sort("home")
    assert means.rows() == [("home-0", 20.0), ("home-1", 21.0)]
    assert "home-1" in capsys.readouterr().out


def test_duckdb_asks_the_last_hour(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """The reader is a table of its query."""
    pytest.importorskip("duckdb")
    executed("from datetime import timedelta", DUCKDB)
    assert re.search(r"home-0 .* 20\.0 .*home-1 .* 21\.0 ", capsys.readouterr().out, re.DOTALL)


def test_pandas_reads_since_a_day(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """What is in the values becomes columns."""
    pytest.importorskip("pandas")
    assert list(executed(PANDAS)["readings"]["celsius"]) == [20, 20, 20, 21, 21, 21]
    assert "count" in capsys.readouterr().out


def test_a_job_goes_on_where_the_last_one_ended(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file with the ends is all that it keeps; one that fails before it is written begins there again."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        executed(NIGHTLY)
        produce(broker, 2)
    executed(NIGHTLY)
    sizes = {path.name: pq.read_table(path).num_rows for path in tmp_path.glob("*.parquet")}
    assert sizes == {"readings-0.parquet": 6, "readings-6.parquet": 4, "readings-10.parquet": 4}


def test_parquet_goes_to_a_container_by_a_managed_identity(
    broker: EmbeddedBroker, token_azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As shown, but for where the account and the broker are."""
    from tests.kit.identity_endpoint import IdentityEndpoint  # noqa: PLC0415

    container = f"tables-{uuid.uuid4().hex[:8]}"
    token_azurite.create_container(container)
    with IdentityEndpoint() as identity:
        for name, value in identity.environment().items():
            monkeypatch.setenv(name, value)
        code = BLOB.replace("https://homes.blob.core.windows.net", token_azurite.account_url())
        code = code.replace('"archive"', repr(container))
        code = re.sub(r"endpoint = .*\n", "", code)
        names = executed(code)
        content = names["blob"].download_blob().readall()
        assert pq.read_table(pa.BufferReader(content)).num_rows == 6
        assert identity.issued
