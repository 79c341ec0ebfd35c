"""Give the quickstart something to print: `python examples/quickstart/produce.py`."""

import json
import os

from confluent_kafka import Producer

producer = Producer({"bootstrap.servers": os.environ.get("EHKAFKA_BOOTSTRAP", "localhost:9092")})
for number in range(100):
    home = f"home-{number % 10}"
    producer.produce("readings", key=home, value=json.dumps({"home": home, "temperature": 20 + number % 5}))
missing = producer.flush(10)
print(f"{missing} readings were not taken; is the broker there?" if missing else "produced 100 readings")
