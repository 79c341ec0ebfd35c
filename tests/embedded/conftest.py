"""What these tests share stands in the kit."""

from tests.kit.one_broker import broker, commit, consumer

__all__ = ["broker", "commit", "consumer"]
