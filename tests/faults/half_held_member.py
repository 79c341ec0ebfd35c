"""A member whose handler holds a random half of the offsets until it is fixed, as a program.

python half_held_member.py --history h.jsonl --bootstrap 127.0.0.1:9092 --group g --topic t --fixed FILE
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import threading
from pathlib import Path

import ehkafka
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.progress import saving
from ehkafka.testing import JsonLinesHistory

SEED = 29 + int(os.environ.get("EHKAFKA_FAULTS_SEED", "0"))


def is_held(offset: int) -> bool:
    """Tell whether an offset belongs to the held half: 0 does, and about half of the others."""
    return offset == 0 or random.Random(SEED * 1_000_003 + offset).random() < 0.5


def main() -> int:
    """Run until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    for name in ("history", "bootstrap", "group", "topic", "fixed"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--consumer", action="append", default=[])
    parser.add_argument("--metadata-bytes", type=int, default=saving.KAFKA_METADATA_BYTES_MAX)
    parser.add_argument("--mirror", help="a folder to mirror the commits in")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    threading.Thread(target=leave_with_parent, name="parent-watch", daemon=True).start()
    saving.KAFKA_METADATA_BYTES_MAX = options.metadata_bytes
    fixed = Path(options.fixed)
    mirror = None
    if options.mirror is not None:
        mirror = StoreMirror(store=FileStore(options.mirror), interval_s=0.2, namespace="ns")
    with JsonLinesHistory(options.history) as history:
        app = ehkafka.App(
            group=options.group,
            endpoint=ehkafka.Endpoint.kafka(options.bootstrap),
            start="earliest",
            history=history,
            commit_interval_s=0.2,
            mirror=mirror,
            consumer=dict(pair.split("=", 1) for pair in options.consumer),
        )

        @app.handler(options.topic, workers=4, null_key="spread", on_failure=ehkafka.Hold())
        def handle(record: ehkafka.Record) -> None:
            if is_held(record.offset()) and not fixed.exists():
                raise ValueError("held")

        app.run()
    return 0


def leave_with_parent() -> None:
    """Leave at once when whoever started this is gone."""
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(99)


if __name__ == "__main__":
    sys.exit(main())
