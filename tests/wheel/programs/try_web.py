"""An app answers probes, and shows its page and its metrics."""

import urllib.request

import ehkafka
from ehkafka.testing.ports import free_ports

(port,) = free_ports(1)
app = ehkafka.App(
    group="homes",
    endpoint=ehkafka.Endpoint.embedded({"readings": 1}),
    start="earliest",
    http=f"127.0.0.1:{port}",
)


@app.handler("readings")
def handle(record: ehkafka.Record) -> None: ...


with app:
    for path, text in {"/live": b"", "/": b"<html", "/metrics": b'group="homes"'}.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            assert text in answer.read(), path
