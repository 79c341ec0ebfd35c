"""An app of one's own in a test, on a broker inside the process, unchanged.

`run` puts it there for a block, or on an event loop; `app_test` is what the block gets: it sends by
`sending`, waits, and reads what `topic_logs` finds as values of `topic_record`. `noted` hears what the app
does, `unfinished` says what a wait was for. `moved_clock` is the app's clock, which `advancing` moves.
`made_record` makes a handler's argument without any app.
"""
