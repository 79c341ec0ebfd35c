"""Dead letters: their headers, and how they reach a topic or a function before an offset moves.

`letter` is the record with headers that give the reason; it writes and reads these. `letters` makes the
targets of one run. A `target` keeps each dead letter until it is safe and its record has an outcome, and
names those that have waited too long. It puts them as outputs of their records, or `function` calls the
user's function in the thread `ehkafka-letters`. `flood` notices too many dead letters.
"""
