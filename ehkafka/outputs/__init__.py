"""Outputs: messages that handlers send. No commit passes a record before its outputs are acknowledged.

Exactly once is different: `transactions.loop` sends in place of `sender`, and one transaction commits a
record and its outputs.

From a handler: `send` defines `Send`, and `encoding` turns results into messages, in worker processes, too. A
`call` keeps the messages of one call until it ends. An `outlet` then puts them: it belongs to one handler. An
`output` names the record that it belongs to.

To the broker: `unacknowledged` keeps all outputs that are put and not acknowledged, in order, and the
`delivery` of a run limits its commits by them. `sender` hands them to a client in the thread
`ehkafka-outputs`: in a `batch` for each partition, which take turns (`round_robin`), or one by one. It lets
go of what `reports` name as written. `one_producer` opens that client and its successors, with the
`properties`; `replacement` (pure) decides when, and `answers` hands over one message and sorts the broker's
errors. `known_keys` has the keys that may have several outputs in flight. `aside` sends the outputs of
refused keys one by one; `recovery.refused_outputs` decides on those that are refused again. `standing` finds
partitions that acknowledge nothing.

`producer` is `app.producer`, for messages that belong to no record: `own_producer` gives them to a sender of
its own, in the thread `ehkafka-producer`.

An output is put before its record ends. A client may be closed at any time: the next one gets all outputs
that are not acknowledged, in their old order, before any new one.
"""
