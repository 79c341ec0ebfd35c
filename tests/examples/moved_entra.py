"""Runs `ehkafka …` with every `Endpoint.entra` moved to the address in MOVED_TO, on this machine.

So the shortest example is run to the letter: it has no line for an address that is not the namespace's.
"""

import functools
import os

import ehkafka
from ehkafka.cli.__main__ import main

MOVED = {"bootstrap.servers": os.environ["MOVED_TO"], "security.protocol": "SASL_PLAINTEXT"}

ehkafka.Endpoint.entra = functools.partial(ehkafka.Endpoint.entra, properties=MOVED)
main()
