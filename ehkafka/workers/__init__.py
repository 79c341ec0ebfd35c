"""Workers: what executes handlers. One protocol, several kinds; this room alone runs user handlers.

`exchange` is where they meet the poll thread: one lock for each handler, handed-in lanes, idle workers;
`chunk_watch` and `stream_watch` find chunks and streams whose record takes long.
`threads` are the pool for blocking handlers, `tasks/` for `async def`, `processes/` for what is bound by the
CPU, `batches/` for handlers of many records. `protocol` is what the app knows of them all, `rate` the limit
of one handler, `auto` and `auto_size` how its number of workers is found out, `attempt_clock` which calls
are overdue, `call_times` how long they take, `loop_threads` the threads that a handler's event loop gives
blocking calls to.
"""
