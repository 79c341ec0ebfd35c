"""`ehkafka run --reload`: for development, an app in a process of its own that changes of its code replace.

`reloading` has its options, and is the process that watches and starts again (extra `[reload]`); `child` is
the beginning of the one that runs the app.
"""
