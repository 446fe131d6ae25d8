"""Mounts and cgroups: found in the kernel's own tables, and nothing of others is taken for ours."""

from pathlib import Path

from dev.cluster.machine.cgroups import hierarchies
from dev.cluster.machine.mounts import mounts_below, remove_tree

MOUNTS = """\
proc /proc proc rw 0 0
overlay /run/tw/n/one/rootfs overlay rw 0 0
tmpfs /run/tw/n/one/rootfs/dev/shm tmpfs rw 0 0
tmpfs /run/tw\\040with\\040space/x tmpfs rw 0 0
tmpfs /run/twin tmpfs rw 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def test_inner_mounts_come_before_outer_ones_and_a_like_named_neighbour_is_not_touched() -> None:
    below = mounts_below(Path("/run/tw"), MOUNTS)
    assert below == [Path("/run/tw/n/one/rootfs/dev/shm"), Path("/run/tw/n/one/rootfs")]


def test_escaped_blanks_in_mount_points_are_read() -> None:
    assert mounts_below(Path("/run/tw with space"), MOUNTS) == [Path("/run/tw with space/x")]


def test_cgroup_hierarchies_of_both_versions_are_found() -> None:
    assert hierarchies(MOUNTS) == [
        (Path("/sys/fs/cgroup/pids"), "cgroup"),
        (Path("/sys/fs/cgroup/unified"), "cgroup2"),
    ]
    assert hierarchies("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n") == [(Path("/sys/fs/cgroup"), "cgroup2")]


def test_removing_a_tree_that_is_not_there_is_fine(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    remove_tree(tmp_path / "a")
    remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
