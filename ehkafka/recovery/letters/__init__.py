"""Dead letters: what they say, and how they reach a topic or a function before an offset moves.

`letter` is the record as it came with headers that say why, and reads these; `letters` makes a run's targets.
A `target` has each dead letter until it is safe and its record has its outcome, and knows which have waited
too long; it puts them as outputs of their records, or `function` calls the user's own on `ehkafka-letters`.
`flood` notices too many.
"""
