"""The demo: readings of 100 000 homes, handled in order per home, judged by the checker while it runs.

`simulator` is a process of its own that produces the readings of `homes`. `session` runs the app with their
handler, and shows it by `view`: a live screen on a terminal, else lines, and a summary at the end.
"""
