"""What these tests share stands in the kit."""

from tests.kit.one_broker import broker, commit, consumer, wait_for

__all__ = ["broker", "commit", "consumer", "wait_for"]
