"""A real Apache Kafka broker on this machine."""
