"""The command runs an app of a file."""

import subprocess
import sys
import tempfile
from pathlib import Path

from ehkafka.testing import EmbeddedBroker

APP = """
import ehkafka
app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.kafka("{address}"), start="earliest")
@app.handler("readings")
def handle(record): print(record.json())
"""

with EmbeddedBroker({"readings": 1}) as broker, tempfile.TemporaryDirectory() as folder:
    broker.produce("readings", [("home-1", b'{"door": "open"}')])
    file = Path(folder, "homes.py")
    file.write_text(APP.format(address=broker.bootstrap))
    command = [Path(sys.executable).with_name("ehkafka"), "run", file, "--until-caught-up"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "{'door': 'open'}" in shown, shown
