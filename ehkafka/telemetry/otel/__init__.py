"""OpenTelemetry: records as spans, metrics as instruments. Observes; an error in here fails no record.

`tracing` is what a program makes for spans, and the spans of dead letters and commits; `attempts` is the
middleware that puts a span around each attempt; `meter` has the metrics of the `catalogue` observed.
`conventions` has the names of OpenTelemetry's conventions, pinned to one version. Needs opentelemetry-api
alone: the program's SDK says what becomes of spans and numbers.
"""
