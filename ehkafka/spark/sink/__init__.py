"""`writeStream.format("ehkafka-blob")`: a stream's batches as JSON lines or Parquet in Azure Blob Storage.

Two phases. Each task stages its rows as blocks of one blob, named by batch and partition; staged blocks
are invisible to readers. When all tasks are through, the driver commits the blobs and writes the batch's
manifest as the last act. A replayed batch has the same number and so the same names: its driver leaves
complete blobs alone and replaces the others. `options` tells the layout.

```
data_source  what Spark looks up: checks the options, hands out the writer   driver
options      the options as values, without secrets                          pure
place        which container, and how it is entered: secrets by their names  driver and executors
container    the few calls of the storage SDK                                driver and executors
stage        one task's rows → blocks                                        executors
files        rows → bytes                                                    executors
commit       blobs, left-overs, manifest                                     driver
```

`columns` refuses what a file format cannot hold before the first batch; `json_values` and `stage.in_utc`
turn what a session shows into what files say.
"""
