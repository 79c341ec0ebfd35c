"""Dead letters: what they say, and how they reach a topic or a function before an offset moves.

`letter` is the record as it came with headers that say why, which `origin` reads; `letters` joins all ways
of one run: `to_topic` puts them as outputs of their records, `function` calls the user's own on
`ehkafka-letters`, one for each handler. `answer` gives the record its outcome once its letter is safe,
`unanswered` knows which have waited too long, `flood` notices too many.
"""
