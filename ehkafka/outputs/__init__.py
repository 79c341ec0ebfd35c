"""Outputs: what handlers send, kept until the broker has it; until then its input is not committed.

`send` is what a handler returns, `encoding` makes messages of it, in worker processes, too. An `outlet` puts
what one handler's workers send: a `call` keeps what one call sends until it ends, and an `output` knows the
record that it is of; `kinds` compares what several handlers send to one topic. `unacknowledged` has all that
is put and not acknowledged, in its order, and a run's `delivery` bounds its commits. `sender` hands it to
`one_producer` after another on `ehkafka-outputs`, with its `properties`: as a `batch` for each partition,
which take `turns`, or by `produce` one by one. `known_keys` says which keys that producer may be given more
of, `aside` sends alone what the broker refuses, with what waits behind it, `answers` says what errors mean,
`replacement` (pure) when the next producer is opened, `standing` which partitions have no leader.

`producer` is `app.producer`, for what belongs to no record: `messages` keeps what it was given in a run, and
`own_producer` sends it on `ehkafka-producer`.

An output is put before its record ends. A producer is only a pipe: whenever one is given up, all that is not
acknowledged goes out again by the next, in its old order, before anything new.
"""
