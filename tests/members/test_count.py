"""How many members are started: what was asked for, cores by affinity and quota, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.members.cores import one_each, usable_cores
from ehkafka.members.count import (
    MEMBERS_MAX,
    checked_count,
    count_from_text,
    members_to_start,
    usable_members,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("given", [0, -1, MEMBERS_MAX + 1, "two", "", 2.0, True, None, [2]])
def test_what_is_no_number_of_members_is_refused(given: Any) -> None:
    """With the range, and the word that chooses by itself."""
    with pytest.raises(ConfigurationError, match=r"members=.*from 1 to 256, or 'auto'"):
        checked_count(given)


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "٣", "9" * 5_000, "1e3", "AUTO"])
def test_what_a_person_types_is_refused_the_same_way(text: str) -> None:
    """By the name of the option, and without thousands of digits."""
    with pytest.raises(ConfigurationError, match="--members=") as caught:
        count_from_text(text)
    assert len(str(caught.value)) < 300


def test_numbers_and_auto_are_taken() -> None:
    """Also with spaces around, as variables bring them."""
    assert [checked_count(1), checked_count("auto"), count_from_text(" 4 ")] == [1, "auto", 4]
    assert count_from_text("auto") == "auto"


def test_no_more_than_the_partitions_feed() -> None:
    """The default assignor deals out topic by topic, always from the first member on; the other at once."""
    partitions = {"readings": 8, "alerts": 4}
    assert usable_members(partitions, "default") == 8
    assert usable_members(partitions, "cooperative-sticky") == 12
    assert members_to_start("auto", cores=32, usable=8) == 8
    assert members_to_start("auto", cores=2, usable=8) == 2
    assert members_to_start(16, cores=2, usable=8) == 16


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files below a root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1 = "12:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "20000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1600000 100000\n"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense"}, 8),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000 0\n"}, 8),
        # The least one from the process's own group up holds.
        (
            {
                "proc/self/cgroup": "0::/kubepods/pod1/app\n",
                "sys/fs/cgroup/kubepods/pod1/app/cpu.max": "max 100000\n",
                "sys/fs/cgroup/kubepods/pod1/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/kubepods/cpu.max": "600000 100000\n",
            },
            3,
        ),
        # Inside a container the path may be one of the host.
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us": "10000\n",
            },
            5,
        ),
        (
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            8,
        ),
    ],
)
def test_cores_are_bounded_by_the_control_groups_quota(
    tmp_path: Path, files: dict[str, str], cores: int
) -> None:
    """Of both versions; what cannot be read, or says nothing, is no bound."""
    assert usable_cores(write(tmp_path, files), affinity=8) == cores


@pytest.mark.parametrize(
    ("members", "quota", "cores"),
    [(3, "max", (0, 2, 5)), (2, "max", ()), (4, "max", ()), (3, "250000", ()), (3, "300000", (0, 2, 5))],
)
def test_each_member_has_a_core_where_there_are_as_many(
    tmp_path: Path, members: int, quota: str, cores: tuple[int, ...]
) -> None:
    """And no quota that lets them use fewer."""
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"}
    assert one_each(members, write(tmp_path, files), affinity=[0, 2, 5]) == cores


def test_one_member_has_all_cores(tmp_path: Path) -> None:
    """Its client and its libraries compute meanwhile."""
    assert one_each(1, tmp_path, affinity=[3]) == ()
