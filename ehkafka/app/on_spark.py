"""An app on Spark: the part of `App` that hands its handlers to a query there. The driver's main thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.run.importing import refuse_while_importing
from ehkafka.wording.calling import plainly

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from ehkafka.run.options import AppOptions
    from ehkafka.spark.engine.run import SparkRun


class OnSpark:
    """What an app does on Spark, where it runs nothing itself."""

    def _must_be_at_rest(self) -> None:
        raise NotImplementedError

    def _refuse_on_spark(self) -> None:
        raise NotImplementedError

    def _options(self) -> AppOptions:
        raise NotImplementedError

    @plainly
    def run_on_spark(
        self,
        spark: SparkSession,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        new_checkpoint: bool = False,
        available_now: bool = False,
        interval_s: float | None = None,
        max_records_per_batch: int = 200_000,
        source_options: Mapping[str, str] | None = None,
        folders: tuple[str, ...] = (),
    ) -> SparkRun:
        """Run the handlers inside the tasks of a Spark query, and return at once.

        The same order per key, retries, dead letters and outputs; commits to the group and the mirror after
        each finished batch. Raises `ConfigurationError` for what cannot run there, `GroupInUseError` while a
        consumer holds the group.

        - `spark` (required): the session.

        Positions

        - `checkpoint` (default `None`): a folder that the driver can write to. `None`: each start begins
          where the group stands.
        - `new_checkpoint` (default `False`): begin where the group stands, although the checkpoint stands
          elsewhere.

        Pace

        - `available_now` (default `False`): end when what is there at the start is handled.
        - `interval_s` (seconds, default `None`): time from the start of one batch to the next. `None`: 0.2 s.
        - `max_records_per_batch` (records, default `200_000`): a batch takes no more.

        Source

        - `source_options` (default `None`): options of `format("ehkafka")`, such as the way to the broker.
        - `folders` (default `()`): where executors on this machine look for modules.
        """
        refuse_while_importing()
        from ehkafka.spark.engine.choices import SparkChoices  # noqa: PLC0415 - not for an app that runs here
        from ehkafka.spark.engine.start import start_on_spark  # noqa: PLC0415 - likewise

        self._refuse_on_spark()
        self._must_be_at_rest()
        choices = SparkChoices(
            checkpoint=checkpoint,
            new_checkpoint=new_checkpoint,
            available_now=available_now,
            interval_s=interval_s,
            max_records_per_batch=max_records_per_batch,
            source_options=source_options,
            folders=folders,
        )
        return start_on_spark(self._options(), spark, choices)
