"""Proof from outside: real members, real brokers, real faults, judged by what Kafka holds afterwards."""
