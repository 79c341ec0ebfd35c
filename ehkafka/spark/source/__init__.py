"""The data source: options → start → offsets → planning on the driver, consumers → reading → arrow in tasks.

Pure: `options` and what it is made of, `offsets`, `planning`, `schema`. `log` asks the broker on the
driver, `consumers` and `reading` run in Spark's Python workers. Only `data_source` and the readers import
PySpark, so everything else is tested without a JVM.
"""
