"""The command starts an app again whose file has changed."""

import subprocess
import sys
import tempfile
from pathlib import Path

APP = """
import ehkafka
app = ehkafka.App(group="homes", endpoint=ehkafka.Endpoint.embedded({"readings": 1}), start="earliest")
@app.on_start
def begin(): print("VERSION 1", flush=True)
@app.handler("readings")
def handle(record): ...
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "homes.py")
    file.write_text(APP)
    command = [Path(sys.executable).with_name("ehkafka"), "run", file, "--reload"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        versions = (line.strip() for line in running.stdout if line.startswith("VERSION"))
        try:
            assert next(versions) == "VERSION 1"
            file.write_text(APP.replace("VERSION 1", "VERSION 2"))
            assert next(versions) == "VERSION 2"
        finally:
            running.terminate()
