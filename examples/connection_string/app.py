"""Event Hubs by connection string, with a health page; the key may change while the app runs.

EHKAFKA_CONNECTION_STRING_FILE=/mnt/secrets/hub ehkafka run examples/connection_string/app.py
"""

import logging
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ehkafka
from ehkafka.events import CredentialRotated, CredentialUnusable

log = logging.getLogger("readings")

# Reads that variable. In code: Endpoint.connection_string(Path("/mnt/secrets/hub")), or a function.
endpoint = ehkafka.Endpoint.from_env()
app = ehkafka.App(group="connection-string", endpoint=endpoint, start="earliest")


@app.handler(endpoint.default_topic or "readings", workers=64)  # the topic of EntityPath=…
def handle(record: ehkafka.Record) -> None:
    log.info("%s %s %s", record.where, record.partition_key, record.json())


class KeyWatch:
    """A hook: ehkafka logs its events; this is for what a log does not do, like a call at night."""

    def on_event(self, event: ehkafka.events.Event) -> None:
        """Hear of every event of `ehkafka.events`. May block or raise: records never wait for it."""
        if isinstance(event, CredentialRotated):
            log.info("new access key from %s", event.source)
        elif isinstance(event, CredentialUnusable):
            log.error("no new access key, the old one stays in use: %s", event.reason)


app.add_hook(KeyWatch())


class HealthPage(BaseHTTPRequestHandler):
    """200 while all is well, else 503 and the reasons, for a probe of the orchestrator."""

    def do_GET(self) -> None:
        """Answer a probe."""
        health = app.health()
        self.send_response(200 if health.ok else 503)
        self.end_headers()
        self.wfile.write("\n".join(health.reasons or ["ok"]).encode())

    def log_message(self, format: str, *_arguments: object) -> None:  # noqa: A002 - it is called so
        """Log nothing: a probe comes every few seconds."""


# Not at import: `ehkafka check` and `ehkafka config` import the app, too, and must not take its port.
@app.on_start
def open_health_page() -> None:
    # For this machine alone; in a container listen on "0.0.0.0".
    page = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("HEALTH_PORT", "8080"))), HealthPage)
    threading.Thread(target=page.serve_forever, daemon=True).start()
    log.info("health: http://127.0.0.1:%d", page.server_port)
