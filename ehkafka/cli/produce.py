"""`ehkafka produce`: writes records that are typed, piped in, or lines of JSON. On the main thread."""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
import typer

from ehkafka.checks.topic_writer import TopicWriter
from ehkafka.cli.command_line import CommandLine
from ehkafka.cli.exits import INTERRUPTED, ended_by_signals, interrupt
from ehkafka.cli.options import PARTITION_MAX, OfEndpoint, Topic
from ehkafka.cli.output import columns, notice, put_json, put_text
from ehkafka.cli.progress import progress_of
from ehkafka.cli.target import target_of
from ehkafka.errors import ConfigurationError
from ehkafka.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    Pairs = list[tuple[str, bytes | None]]
    KeyValueHeaders = tuple[bytes | None, bytes | None, Pairs]

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""No service takes a record of this size; input without an end of line must not fill the memory."""
FIELDS: Final = frozenset({"key", "value", "headers"})
# What an export's lines have, too: where a record was is not where it goes.
PASSED_OVER: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
HEADERS: Final = ("PARTITION", "RECORDS", "FIRST OFFSET", "LAST OFFSET")

cli = CommandLine()


@dataclass(frozen=True, slots=True, kw_only=True)
class LineForm:
    """How a line becomes a record."""

    key: Annotated[str | None, typer.Option(help="The key of all records. Default: none.")] = None
    delimiter: Annotated[
        str | None,
        typer.Option("--key-delimiter", metavar="TEXT", help="A line is KEY, this text, and the value."),
    ] = None
    ndjson: Annotated[
        bool, typer.Option("--ndjson", help="A line is a JSON object with value, key and headers.")
    ] = False
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of all records; may be given several times."),
    ] = None

    def headers(self) -> Pairs:
        """Return the headers of all records; refuses options that exclude each other."""
        if sum((self.key is not None, self.delimiter is not None, self.ndjson)) > 1:
            raise ConfigurationError("Give one of --key, --key-delimiter and --ndjson: each decides the key.")
        pairs = [one.partition("=") for one in self.header or ()]
        if wrong := [name for name, sign, _ in pairs if not (sign and name)]:
            raise ConfigurationError(f"--header {wrong[0]!r} has no name and value: give NAME=VALUE.")
        return [(name, value.encode()) for name, _, value in pairs]

    def record(self, line: bytes) -> KeyValueHeaders:
        """Return key, value and headers of a line. Raises `ValueError`."""
        if self.ndjson:
            return from_json(line)
        if self.delimiter is None:
            return None if self.key is None else os.fsencode(self.key), line, []
        key, found, value = line.partition(self.delimiter.encode())
        if not found:
            raise ValueError(f"the line has no {self.delimiter!r} between key and value")
        return key, value, []


@cli.command("produce")
def produce(
    topic: Topic,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="The records. Default: lines of stdin.")
    ] = None,
    *,
    form: LineForm,
    partition: Annotated[
        int | None,
        typer.Option(min=0, max=PARTITION_MAX, help="Their partition. Default: the key decides."),
    ] = None,
    of: OfEndpoint,
) -> int:
    r"""Write records to a topic: arguments, lines of stdin, or lines of JSON.

    It ends with 0 once all in-sync replicas have every record (acks=all), and tells their offsets. Records of
    a key stay in order. At the first record that is refused it ends with 3; a line that is no record ends it
    with 2, and the lines before it are written.

    With --ndjson a line is {"key": "c-7", "value": …, "headers": {"name": "text"}}, or a line of an export.
    Text is written as UTF-8, {"base64": "…"} as its bytes, null as null, and any other value as JSON.

    \b
    Examples:
      ehkafka produce orders '{"id": 1}' '{"id": 2}' --key c-7 --endpoint localhost:9092
      ehkafka produce orders --ndjson < orders.ndjson       a bar shows the rate
      ehkafka produce orders --key-delimiter : < lines      each line is key:value

    """
    if values is None and sys.stdin.isatty():
        raise ConfigurationError(
            "There is nothing to write: give values as arguments, or lines on stdin, such as < FILE."
        )
    lines = stdin_lines() if values is None else map(os.fsencode, values)
    writer = TopicWriter(target_of(topic, of), topic, timeout_s=of.timeout_s)
    code = INTERRUPTED
    try:
        with ended_by_signals(interrupt):
            _write(writer, lines, form, partition)
        code = 0
    except KeyboardInterrupt:
        notice("interrupted: records after those that are reported were not acknowledged.")
    finally:
        if writer.written or code == 0:
            _report(topic, writer, as_json=of.as_json)
    return code


def stdin_lines() -> Iterable[bytes]:
    """Yield the lines of stdin without their ends. Raises `ConfigurationError` for one without an end."""
    while line := sys.stdin.buffer.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise ConfigurationError(f"A line of stdin is longer than {LINE_BYTES_MAX} bytes.")
        yield line.removesuffix(b"\n")


def _write(writer: TopicWriter, lines: Iterable[bytes], form: LineForm, partition: int | None) -> None:
    own = form.headers()
    with writer, progress_of("Writing", None, "records") as report:
        for number, line in enumerate(lines, 1):
            if form.ndjson and not line.strip():
                continue
            try:
                key, value, headers = form.record(line)
                writer.write(value, partition=partition, key=key, headers=[*own, *headers])
            except (TypeError, ValueError) as error:
                raise ConfigurationError(f"Record {number} cannot be written: {error}.") from None
            report(number)
        writer.flush()


def from_json(line: bytes) -> KeyValueHeaders:
    """Return key, value and headers of a JSON object. Raises `ValueError`."""
    found = orjson.loads(line)
    if not isinstance(found, dict) or "value" not in found:
        raise ValueError('the line is no JSON object with a "value"')
    if unknown := found.keys() - FIELDS - PASSED_OVER:
        raise ValueError(f"the field {min(unknown)!r} is unknown: give key, value and headers")
    headers = found.get("headers") or {}
    try:
        pairs = headers.items() if isinstance(headers, dict) else [(h["key"], h["value"]) for h in headers]
    except (LookupError, TypeError):
        raise ValueError('headers are {"name": "text"}, or a list of {"key": …, "value": …}') from None
    return _data(found.get("key")), _data(found["value"]), [(name, _data(one)) for name, one in pairs]


def _data(value: Any) -> bytes | None:
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return base64.b64decode(value["base64"], validate=True)
    return orjson.dumps(value)


def _report(topic: str, writer: TopicWriter, *, as_json: bool) -> None:
    """Tell what the broker has acknowledged."""
    written = dict(sorted(writer.written.items()))
    records = sum(one.records for one in written.values())
    if as_json:
        partitions = [{"partition": number, **asdict(one)} for number, one in written.items()]
        put_json({"topic": topic, "records": records, "partitions": partitions}, on_one_line=True)
        return
    put_text(f"{counted(records, 'record')} written to {topic}")
    if written:
        rows = [(number, *asdict(one).values()) for number, one in written.items()]
        put_text(columns(HEADERS, rows))
