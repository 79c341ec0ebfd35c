"""Outputs: what handlers send, kept until the broker has it; until then its input is not committed.

`send` is what a handler returns, `making` makes messages of it, in worker processes, too: `encoding` their
bytes, `checked` what else it says. `outlet` is one handler's way out, on its workers: `claim` joins an output
to the records it was made of, `kinds` compares what several handlers send to one topic, `in_vain` counts what
failed attempts had sent. `book` keeps all that is not acknowledged, in its order, over `ledger` (pure), which
says whose offsets wait; most of it stands in a `bundle` each time that somebody looks. `sender` hands it to
`one_producer` after another on `ehkafka-outputs`, with its `properties`: a bundle as a `batch` for each
partition; `replacement` (pure) says when the next one is opened. `answered` keeps what that one has answered,
`first_answers` says which keys it may be given more of, `refusals` keeps what the broker refuses, with what
waits behind it, which `refused` sends again one by one; `answers` says what errors mean.

`producer` is `app.producer`, for what belongs to no record: `messages` keeps what it was given in a run,
and `own_producer` sends it on `ehkafka-producer`.

An output is in the book before its record ends. The book is the truth and a producer only a pipe: whenever
one is given up, all that stands in the book goes out again by the next, in its old order, before anything
new.
"""
