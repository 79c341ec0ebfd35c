"""The demo: readings of 100 000 homes, handled in order per home, judged by the checker while it runs.

`simulator` is a process of its own that produces the readings of `world`; `feed` starts it and holds it
back. `session` runs the app whose handler is `homes`, and shows a `picture` of it several times a second by
`view` (a terminal) or `progress` (lines). `plan` is what was asked for, `topic` makes the topic, `screen`
chooses how a run is shown, `log_keeper` keeps warnings while the picture owns the terminal. `summary` is
what is left at the end.
"""
