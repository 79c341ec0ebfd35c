"""Dead letters: what they say, and how they reach a topic or a function before an offset moves.

`letter` is the record as it came with headers that say why, which `origin` reads; `letters` makes the ways of
one run. A `way` knows each letter until it is safe and its record has its outcome, and which have waited too
long: `to_topic` puts them as outputs of their records, `function` calls the user's own on `ehkafka-letters`.
`flood` notices too many.
"""
