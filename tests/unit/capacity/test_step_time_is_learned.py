"""The step time comes out of what pods measured: to scale from the first point, in shape with more, and outliers do not poison it."""

import random
from dataclasses import replace

import pytest

from tests.unit.capacity.tiers import pod
from tierwright.capacity.samples import PodSample
from tierwright.capacity.step_time import StepPoints
from tierwright.capacity.work import PRIOR_STEP_TIME, Mix, StepTime

PRIOR = PRIOR_STEP_TIME["nvidia"]
YOUNG = 120.0


def measured(truth: StepTime, batch: float, context: float, prefill: float, **changes: object) -> PodSample:
    """A pod whose 500 steps had this batch, context and prefill on an engine of this step time."""
    return pod(
        0.0,
        steps=500.0,
        output_tokens=500 * batch,
        prompt_tokens=500 * prefill,
        context_tokens=context,
        token_seconds=truth.seconds(batch, context, prefill),
        **changes,
    )


def various(truth: StepTime, count: int = 150) -> list[PodSample]:
    draw = random.Random(3)
    return [
        measured(truth, 2 ** draw.uniform(0, 7), draw.uniform(0, 2e5), draw.uniform(0, 500))
        for _ in range(count)
    ]


def test_nothing_measured_is_the_prior() -> None:
    assert StepPoints().fit(PRIOR) == PRIOR


def test_one_point_sets_the_scale_of_a_larger_model() -> None:
    truth = PRIOR.scaled(4.0)
    fit = StepPoints().seen([measured(truth, 8, 20_000, 50)], YOUNG).fit(PRIOR)
    assert fit.seconds(8, 20_000, 50) == pytest.approx(truth.seconds(8, 20_000, 50), rel=0.02)
    assert fit.prefill == pytest.approx(truth.prefill, rel=0.05)


def test_many_points_give_the_coefficients() -> None:
    truth = StepTime(fixed=15e-3, batch=80e-6, context=40e-9, prefill=30e-6)
    fit = StepPoints().seen(various(truth), YOUNG).fit(PRIOR)
    for batch, context, prefill in ((1, 0, 0), (64, 1e5, 0), (64, 1e5, 400), (8, 1e4, 100)):
        assert fit.seconds(batch, context, prefill) == pytest.approx(
            truth.seconds(batch, context, prefill), rel=0.15
        )


def test_a_tenth_of_wild_points_does_not_matter() -> None:
    truth = PRIOR.scaled(2.0)
    pods = [
        replace(p, token_seconds=(p.token_seconds or 0) * 20) if number % 10 == 0 else p
        for number, p in enumerate(various(truth))
    ]
    fit = StepPoints().seen(pods, YOUNG).fit(PRIOR)
    assert fit.seconds(32, 5e4, 100) == pytest.approx(truth.seconds(32, 5e4, 100), rel=0.15)


def test_steps_of_young_pods_are_left_out() -> None:
    slow = measured(PRIOR.scaled(50.0), 8, 20_000, 50, age=60.0)
    assert StepPoints().seen([slow], YOUNG) == StepPoints()


@pytest.mark.parametrize(
    "changes",
    [
        {"token_seconds": None},
        {"token_seconds": 0.0},
        {"output_tokens": 0.0},
        {"output_tokens": None},
        {"steps": 0.5},
    ],
)
def test_idle_pods_teach_nothing(changes: dict[str, object]) -> None:
    assert StepPoints().seen([pod(5.0, **changes)], YOUNG) == StepPoints()


def test_an_engine_that_does_not_count_steps_is_read_from_its_pace() -> None:
    uncounted = replace(
        measured(PRIOR, 4, 0, 0), steps=None, context_tokens=None, prompt_tokens=None, cached_tokens=None
    )
    (point,) = [point for band in StepPoints().seen([uncounted], YOUNG).bands for point in band]
    assert point.seconds == PRIOR.seconds(4, 0, 0)
    assert (point.context, point.prefill) == (0, 0)


def test_no_coefficient_is_negative() -> None:
    # Longer prompts and larger batches that seem to make steps faster.
    pods = [measured(StepTime(0.1 / (1 + b), 0, 0, 0), b, 1e5 * b, 100 * b) for b in range(1, 60)]
    fit = StepPoints().seen(pods, YOUNG).fit(PRIOR)
    assert min(fit.fixed, fit.batch, fit.context, fit.prefill) >= 0


def test_a_quiet_night_does_not_wash_out_the_day() -> None:
    truth = StepTime(fixed=11e-3, batch=300e-6, context=0, prefill=0)
    points = StepPoints().seen([measured(truth, 64, 0, 0)], YOUNG)
    for _ in range(1000):
        points = points.seen([measured(truth, 1, 0, 0)], YOUNG)
    assert sum(len(band) for band in points.bands) == 17
    assert points.fit(PRIOR).seconds(64, 0, 0) == pytest.approx(truth.seconds(64, 0, 0), rel=0.2)


def test_work_of_a_request() -> None:
    mix = Mix(requests=10, prompt_tokens=10_000, cached_tokens=4_000, output_tokens=1_000)
    step = StepTime(fixed=1.0, batch=2.0, context=0.01, prefill=0.5)
    assert mix.work(step) == pytest.approx(100 * (2.0 + 0.01 * 1050) + 0.5 * 600)


def test_work_is_unknown_before_a_request() -> None:
    assert Mix().work(PRIOR) is None


def test_work_never_vanishes() -> None:
    cached = Mix(requests=5, prompt_tokens=1000, cached_tokens=2000, output_tokens=0)
    work = cached.work(PRIOR)
    assert work is not None
    assert work > 0
