"""Keep a copy of the commits, by which KEDA scales: `python examples/mirror_and_keda/app.py`.

In a cluster EHKAFKA_MIRROR_CONTAINER_URL names a container of Blob Storage, which KEDA reads; see keda.yaml.
Here a folder takes its place.
"""

import os
import sys
from pathlib import Path

import ehkafka
from ehkafka.checkpoints import FileStore, StoreMirror

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "checkpoints")
is_cluster = "EHKAFKA_MIRROR_CONTAINER_URL" in os.environ
app = ehkafka.App(
    group="home-security",
    endpoint=ehkafka.Endpoint.from_env() if is_cluster else ehkafka.Endpoint.embedded({"readings": 1}),
    start="earliest",
    # KEDA reads names in lower case: namespace, event hub and group.
    mirror=ehkafka.BlobMirror.from_env()
    if is_cluster
    else StoreMirror(store=FileStore(folder), namespace="home.servicebus.windows.net"),
)


@app.on_start
def produce() -> None:
    if not is_cluster:
        for number in range(10):
            app.producer.send("readings", {"number": number}, key="home-1")
        app.producer.flush()


@app.handler("readings")
def handle(record: ehkafka.Record) -> None:
    print(record.where)


if __name__ == "__main__":
    folder.mkdir(exist_ok=True)
    app.run(until=None if is_cluster else "caught_up")
