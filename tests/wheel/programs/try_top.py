"""The command finds its screen, and says that no app answers."""

import subprocess
import sys
from pathlib import Path

import ehkafka.cli.top.screen
from ehkafka.testing.ports import free_ports

assert ehkafka.cli.top.screen.Top
(port,) = free_ports(1)
command = [Path(sys.executable).with_name("ehkafka"), "top", f"http://127.0.0.1:{port}"]
ended = subprocess.run(command, capture_output=True, text=True, check=False)
assert (ended.returncode, "does not answer" in ended.stderr) == (3, True), ended
