"""Settings that are mistyped or have a wrong value: each marked line is an error."""

from __future__ import annotations

import ehkafka
from ehkafka import Appp  # error

ehkafka.App()  # error
ehkafka.App(group="g", start="earliest", drains="all")  # error
ehkafka.App(group="g", start="earliest", drain="everything")  # error
ehkafka.App(group="g", start="erliest")  # error
ehkafka.App(group="g", start=1.5)  # error
ehkafka.App(group="g", start="earliest", stop_s="10")  # error
ehkafka.App(group="g", start="earliest", max_age=60)  # error
ehkafka.App(group="g", start="earliest", workers=4)  # error
ehkafka.App(group="g", start="earliest", consumer="debug")  # error
ehkafka.App(group=1, start="earliest")  # error
ehkafka.App("g", start="earliest")  # error
ehkafka.App(group="g", endpoint="localhost:9092", start="earliest")  # error

app = ehkafka.App(group="g", start="earliest")
app.configure(grup="h")  # error
app.configure(stop_s=None)  # error
app.run(until="end")  # error
app.run(member=2)  # error
app.stop(drain="none")  # error
app.settings.drain = "all"  # error
app.setings  # error
app.resize("handle", worker=3)  # error
ehkafka.app_of  # error

ehkafka.Endpoint.kafka()  # error
ehkafka.Endpoint.kafka("localhost:9092", property={})  # error
ehkafka.Endpoint.kafka("localhost:9092", {"ssl.ca.location": []})  # error
ehkafka.Endpoint.entra("home", client="id")  # error
ehkafka.Endpoint.embedded(["readings"])  # error
ehkafka.Endpoint.conection_string("…")  # error
