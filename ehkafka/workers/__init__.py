"""Workers: what executes handlers. One protocol, several kinds; this room alone runs user handlers.

`hub` is where they meet the poll thread: one lock around the inboxes of each handler, which no record needs.
`thread_pool` are threads with an inbox each, `threads` what they do for blocking handlers; `tasks/` are for
`async def`, `processes/` for what is bound by the CPU, `batches/` for handlers of many records. `protocol` is
what the app knows of them all, `option` what `workers=` takes, `rate` the limit of one handler, `auto` and
`auto_size` how its number of workers is found out, `attempt_clock` which calls are overdue, `call_times` how
long they take.
"""
