"""Call an HTTP service for each record, a hundred at a time: `python examples/asyncio_http/app.py`."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

import ehkafka

endpoint = ehkafka.Endpoint.embedded({"alarms": 4})
app = ehkafka.App(group="asyncio-http", endpoint=endpoint, start="earliest")
client = httpx.AsyncClient(timeout=5.0)
called: list[str] = []


class Guard(BaseHTTPRequestHandler):
    """The service: it refuses its first call, and takes 50 ms for any other one."""

    calls = 0

    def do_POST(self) -> None:
        """Answer a call."""
        Guard.calls += 1
        is_first = Guard.calls == 1
        time.sleep(0.05)
        self.send_response(503 if is_first else 204)
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""


@app.on_start
def produce() -> None:
    for number in range(100):
        app.producer.send("alarms", {"number": number}, key=f"home-{number % 25}")
    app.producer.flush()


@app.handler("alarms", workers=100, retry=ehkafka.Retry(attempts=5, first_s=0.1), on_failure=ehkafka.Hold())
async def call_the_guard(record: ehkafka.Record) -> None:
    answer = await client.post(address, json=record.json())
    answer.raise_for_status()  # a refused call is an error: the record is tried again
    called.append(str(record.partition_key))


if __name__ == "__main__":
    service = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{service.server_port}"
    app.run(until="caught_up")
    print(f"{len(called)} calls accepted for {len(set(called))} homes, {Guard.calls - len(called)} refused")
