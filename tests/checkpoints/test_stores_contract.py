"""The stores of the package keep to what every checkpoint store keeps to."""

from __future__ import annotations

from ehkafka.testing import CheckpointStoreSuite


class TestOurStores(CheckpointStoreSuite):
    """In memory, in a folder, in Blob Storage."""
