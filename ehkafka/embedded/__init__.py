"""The broker inside of the process, behind `Endpoint.embedded()` and `ehkafka.testing.EmbeddedBroker`.

`broker` is the cluster that users see, `mock_cluster` over `mock_api` librdkafka's own that it runs on,
`topics` reads and writes its records, `requests` and `answers` look at what clients asked and delay what they
get; `shared` is one broker for all who hold an endpoint. `by_time` looks up times on it, from any process,
`numbers` checks what librdkafka is given. A ground room: it knows errors alone, and nothing is loaded
before it is asked for.
"""
