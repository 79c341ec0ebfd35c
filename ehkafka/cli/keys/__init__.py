"""`ehkafka keys`: which keys hold a commit, and a hand on each, by the HTTP side of running apps.

`commands` has options and help, `door` asks one app, `keys` does it with all that were named and writes it.
"""
