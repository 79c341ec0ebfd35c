"""The data source: options → `ranges` on the driver, `planning` → consumers → `ranges` in tasks.

Pure: `options` with `option_text`, `offsets` (what Spark writes down), `planning`, `lag` with `picture`;
`stream` and `witnesses` are a query's decisions. `commits` makes a query's commits on the driver, `consumers`
keeps what tasks read with; the room `ranges` asks the broker, reads, and writes columns. Only `data_source`,
`readers`, `stream_reader` (from PySpark 4.2 on) and `early_stream_reader` (before) import PySpark, so
everything else is tested without a JVM.
"""
