"""Give the emulator's event hub eh1 something to read: `python examples/emulator/produce.py`."""

import json

from app import endpoint  # the file next to this one
from confluent_kafka import Producer

# An endpoint knows what any client of it needs: address, credential, and Event Hubs' time-outs.
producer = Producer(endpoint.client_properties())
for number in range(100):
    home = f"home-{number % 10}"
    producer.produce("eh1", key=home, value=json.dumps({"home": home, "temperature": 20 + number % 5}))
missing = producer.flush(10)
print(f"{missing} readings were not taken; is the emulator up?" if missing else "produced 100 readings")
