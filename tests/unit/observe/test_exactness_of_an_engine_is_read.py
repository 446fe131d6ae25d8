"""What the JAX worker's page says of how exact its answers are is read; half of it, or what is no share, is not believed."""

from pathlib import Path

import pytest

from tests.unit.observe.engine_page import page
from tierwright.observe import metric_names
from tierwright.observe.metrics import Exactness, parse

WORKER = Path(__file__).resolve().parents[3] / "worker" / "tierwright_worker" / "server" / "metrics.py"


def told(row_exact: object, agreement: object, lossy: str = "none", engine: str = "0") -> str:
    """The lines of one engine."""
    labels = f'engine="{engine}",model_name="m"'
    return (
        f"tierwright_worker_row_exact{{{labels}}} {row_exact}\n"
        f"tierwright_worker_step_agreement{{{labels}}} {agreement}\n"
        f'tierwright_worker_speculation_info{{{labels},method="ngram",lossy="{lossy}"}} 1.0\n'
    )


def test_an_exact_engine() -> None:
    read = parse(page() + told(1.0, 1.0))
    assert read.exactness == Exactness(row_exact=True, agreement=1.0)
    assert read.faults == ()


def test_an_engine_whose_steps_round_by_their_shape_and_whose_verification_bends() -> None:
    read = parse(page() + told(0.0, 0.985, "entropy<=0.5,share>=0.3"))
    assert read.exactness == Exactness(False, 0.985, "entropy<=0.5,share>=0.3")


def test_of_several_engines_in_one_pod_the_least_counts() -> None:
    read = parse(page() + told(1.0, 1.0) + told(0.0, 0.99, engine="1"))
    assert read.exactness == Exactness(row_exact=False, agreement=0.99)


@pytest.mark.parametrize(
    "lines",
    [
        "",
        told(1.0, 1.0).splitlines(keepends=True)[0],
        told(1.0, 1.0).splitlines(keepends=True)[1],
        told(1.0, "NaN"),
        told(2.0, 1.0),
        told(1.0, -0.1),
        told(1.0, 1.0) + told(1.0, "lots", engine="1"),
    ],
    ids=["another engine", "a half", "the other half", "not a number", "no flag", "no share", "damaged"],
)
def test_what_is_not_whole_is_not_believed(lines: str) -> None:
    assert parse(page() + lines).exactness is None


def test_the_worker_has_these_names() -> None:
    """It lives in an environment of its own; a name that one side alone changes would end in silence."""
    source = WORKER.read_text(encoding="utf-8")
    for name in (metric_names.ROW_EXACT, metric_names.STEP_AGREEMENT, metric_names.SPECULATION_INFO):
        assert f'"{name}"' in source
