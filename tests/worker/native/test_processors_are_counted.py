"""The kernels use the processors that the container may use, not those that the node has."""

from pathlib import Path

import pytest

from tierwright_worker.native import processors


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ("100000 100000", 1),
        ("150000 100000", 2),
        ("50000 100000", 1),
        ("max 100000", 10**6),
        ("nonsense", 10**6),
    ],
)
def test_the_limit_of_the_container_counts(tmp_path: Path, limit: str, most: int) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(limit)
    assert 1 <= processors(file) <= most
    assert processors(tmp_path / "absent") >= processors(file)
