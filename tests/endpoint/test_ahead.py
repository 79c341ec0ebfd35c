"""How much a consumer fetches ahead."""

from __future__ import annotations

import pytest

from ehkafka.endpoint.properties.ahead import AHEAD, Ahead

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("backlog", "apps", "ahead"),
    [
        ((50_000, 128 * MIB), 1, AHEAD),
        ((50_000, 128 * MIB), 2, (10_000, 32_768)),
        ((50_000, 128 * MIB), 10, (2_500, 6_553)),
        ((50_000, 128 * MIB), 1_000, (1_000, 4_096)),
        ((4_000, 16 * MIB), 1, (2_000, 8_192)),
        ((10, 1_000), 1, (1_000, 4_096)),
        ((10**9, 10**12), 1, AHEAD),
    ],
)
def test_it_is_half_of_the_backlogs_limits_shared_by_the_apps(
    backlog: tuple[int, int], apps: int, ahead: tuple[int, int]
) -> None:
    """Within bounds: enough for a quick handler, and what one answer brings anyway."""
    assert Ahead.of(*backlog, apps) == ahead
