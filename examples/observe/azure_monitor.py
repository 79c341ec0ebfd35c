"""Traces and metrics in Application Insights, by Azure Monitor's distribution of OpenTelemetry.

    pip install azure-monitor-opentelemetry    (and the extra [otel] of ehkafka: see README.md, Install)
    export APPLICATIONINSIGHTS_CONNECTION_STRING=…  EHKAFKA_NAMESPACE=…
    python examples/observe/azure_monitor.py

The setup is as Azure documents it; it was not run against Azure here.
"""

from azure.monitor.opentelemetry import configure_azure_monitor

import ehkafka
import ehkafka.otel

app = ehkafka.App(group="$Default", endpoint=ehkafka.Endpoint.from_env(), start="earliest")
ehkafka.otel.Tracing(app)
ehkafka.otel.Metrics(app)


@app.handler("readings", workers=64)
def handle(record: ehkafka.Record) -> None:
    print(record.where, record.json())


if __name__ == "__main__":
    configure_azure_monitor()  # after the import: worker processes and members import this file, too
    app.run()
