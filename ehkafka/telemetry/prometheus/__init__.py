"""Metrics for Prometheus: what there are (`catalogue`), and how an app's snapshot becomes them (`collector`).

The catalogue needs no third party; prometheus-client turns families into text, and is imported when a
collector is made. Programs use the face, `ehkafka.metrics`.
"""
