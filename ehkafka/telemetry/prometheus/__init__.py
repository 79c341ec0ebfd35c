"""Metrics for Prometheus: how what the `catalogue` next to this room names becomes families (`collector`).

prometheus-client turns families into text, and is imported when a collector is made. Programs use the face,
`ehkafka.metrics`.
"""
