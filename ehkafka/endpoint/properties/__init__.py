"""librdkafka's properties: their names, limits, defaults, and what is refused."""
