"""Read from the Event Hubs emulator on this machine: `ehkafka run examples/emulator/app.py`.

Start the emulator first (github.com/Azure/azure-event-hubs-emulator-installer), then feed it with
`python examples/emulator/produce.py`.
"""

import logging
import os

import ehkafka

# The emulator's own string, the same for everybody: SAS_KEY_VALUE is no placeholder. UseDevelopmentEmulator
# makes the difference: port 9092 and no TLS, which a real namespace would refuse.
EMULATOR = (
    "Endpoint=sb://localhost;SharedAccessKeyName=RootManageSharedAccessKey;"
    "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
)
endpoint = ehkafka.Endpoint.connection_string(os.environ.get("EHKAFKA_CONNECTION_STRING", EMULATOR))

# The group need not be in the emulator's Config.json: Kafka's groups are made by their first member.
app = ehkafka.App(group="emulator", endpoint=endpoint, start="earliest")


# The event hub must be there: eh1 is the one that the emulator's Config.json comes with.
@app.handler("eh1", workers=64)
def handle(record: ehkafka.Record) -> None:
    logging.getLogger("emulator").info("%s %s", record.where, record.json())
