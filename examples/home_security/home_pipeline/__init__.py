"""Home security from sensor to page: many homes' readings, counted per home, kept in blobs, shown.

How a reading flows: `simulate` sends it to the topic `readings`; one of two engines counts it
(`spark_engine`: Spark SQL with a watermark; `local_engine`: a batch handler of an `ehkafka.App`) and writes
rows in the one `layout` to a blob container; `follower` reads new blobs into a `table`; `page` shows that.
What the page shows of homes comes from blobs only. Next to an engine `alerts` sends each reading
that is an alarm on to a topic. `ledger` keeps what was sent, so that the numbers on the page can be checked,
by `check`, and the alerts by `alert_check`.
"""
