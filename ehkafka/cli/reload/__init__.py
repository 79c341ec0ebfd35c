"""`ehkafka run --reload`: for development, an app in a process of its own that changes of its code replace.

`options` are what may be typed, `reloading` is the process that watches and starts again (extra `[reload]`),
`child` the beginning of the one that runs the app.
"""
