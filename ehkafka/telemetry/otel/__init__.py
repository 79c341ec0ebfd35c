"""Traces: what happens to a record as spans of OpenTelemetry. Observes; an error in here fails no record.

`tracing` is what a program makes, and the spans of dead letters and commits; `attempts` is the middleware
that puts a span around each attempt; `conventions` has the names of OpenTelemetry's conventions, pinned to
one version. Needs opentelemetry-api alone: the program's SDK says what becomes of spans.
"""
