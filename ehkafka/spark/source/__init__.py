"""The data source: options → start → offsets → planning on the driver, consumers → reading → arrow in tasks.

Pure: `options` with `option_text` and `start`, `begin` (a place → offsets), `offsets` (what Spark writes
down), `planning`, `loss`, `schema`, `lag` with `picture`; `stream` and `witnesses` are a query's
decisions. On the driver `log` and `log_ids` ask the broker, and `commits` makes a query's commits. In Spark's
Python workers `client` opens, `consumers` keeps, `reading` reads and `arrow` writes columns. Only
`data_source`, `reader_parts` and the readers (`batch_reader`; `stream_reader` from PySpark 4.2 on,
`early_stream_reader` before; `partition` is what they give to tasks) import PySpark, so
everything else is tested without a JVM.
"""
