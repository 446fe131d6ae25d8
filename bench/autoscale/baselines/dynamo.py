"""NVIDIA Dynamo's planner: the decision code of its wheel (ai-dynamo 1.4.2) itself, told what it asks for from the page.

Source: `dynamo.planner.core` of the wheel: PlannerScalingState with load_scaling and throughput_scaling, and the predictors of
core/load; defaults of config/defaults.py; the order of one tick as in plugins/builtins/local_planner.py. The planner reads its
engines' own forward-pass metrics, one record for each worker. The page is the fleet's: each ready worker gets its mean,
with the mean prompt for every request that waits. Its connectors (they talk to Kubernetes) have no part in the decision.

Needs requirements/bench-dynamo.txt and bench-dynamo-wheel.txt, and is imported when one of its rules is made.
"""

from importlib import import_module
from typing import Any

from bench.autoscale.baselines.dynamo_planner import Forecast, Planner, mean_output, mean_prompt
from bench.autoscale.baselines.knob import Knob
from bench.autoscale.baselines.loops import Every, Pages
from bench.autoscale.cheap import Run
from bench.autoscale.policy import Snapshot
from tierwright.observe.metrics import parse

LOAD_INTERVAL = 5.0


class DynamoEasy:
    """Targets `throughput` and `latency`: one up when any worker's KV tokens, queued prompts included, exceed a share, one down
    when all are below another; nothing while a worker starts.

    The wheel has both shares as constants, 100 % and 60 % or 40 % and 10 %; its target `load` takes them as settings, which is
    what other values than these run as.
    """

    KNOBS: tuple[Knob, ...]
    TARGET: str
    UP: float
    DOWN: float

    def __init__(self, run: Run, *, up: float, down: float) -> None:
        self.name = f"dynamo-{self.TARGET}-{up:g}"
        shipped = (up, down) == (self.UP, self.DOWN)
        if shipped:
            config: dict[str, Any] = {"optimization_target": self.TARGET}
        else:
            down = min(down, up - 1e-3)
            config = {
                "optimization_target": "load",
                "decode_scale_up_kv_rate": up,
                "decode_scale_down_kv_rate": down,
            }
        self._planner = Planner(run, **config)
        self._pages, self._loop = Pages(60.0), Every(LOAD_INTERVAL)

    def tick(self, seen: Snapshot) -> int | None:
        """No records keep the size."""
        if not self._loop.due(seen.now) or seen.page is None or not seen.ready:
            return None
        page = parse(seen.page[1])
        if page.kv_usage is None or page.waiting is None:
            return None
        self._pages.add(seen.page[0], page)
        workers = self._planner.workers(page, self._pages.delta, seen.ready)
        return self._planner.decide(seen, workers, None)


class DynamoThroughput(DynamoEasy):
    """The wheel's default target."""

    TARGET, UP, DOWN = "throughput", 100.0, 60.0
    KNOBS = (Knob("up", 100, 1, 100, log=True), Knob("down", 60, 0.1, 99, log=True))

    def __init__(self, run: Run, *, up: float = 100.0, down: float = 60.0) -> None:
        super().__init__(run, up=up, down=down)


class DynamoLatency(DynamoEasy):
    """The same rule with the lower shares."""

    TARGET, UP, DOWN = "latency", 40.0, 10.0
    KNOBS = (Knob("up", 40, 1, 100, log=True), Knob("down", 10, 0.1, 99, log=True))

    def __init__(self, run: Run, *, up: float = 40.0, down: float = 10.0) -> None:
        super().__init__(run, up=up, down=down)


class DynamoSla:
    """Target `sla`, both loops: every 5 s (here each tick) one up if all workers are estimated above an objective and one down
    if they stay within 80 % of it after the consolidation; every 180 s the forecast demand over an engine's rate is the floor.

    Its performance model is the wheel's regression over the workers' records (no profile of the engine is given to it, nor to
    any other rule). `scale` multiplies the objectives that it is told. `predictor` is a setting of the wheel: ARIMA as shipped, which
    takes two minutes of computing for a day, or `constant`, the last value.
    """

    KNOBS = (
        Knob("scale", 1, 0.2, 2, log=True),
        Knob("sensitivity", 80, 10, 100),
        Knob("interval", 180, 60, 600, whole=True),
    )

    def __init__(
        self,
        run: Run,
        *,
        scale: float = 1.0,
        sensitivity: float = 80.0,
        interval: float = 180.0,
        predictor: str = "arima",
    ) -> None:
        self.name = f"dynamo-sla-{predictor}-{scale:g}"
        # A multiple of the load loop's interval, as the planner's configuration demands.
        every = max(2, round(interval / LOAD_INTERVAL)) * int(LOAD_INTERVAL)
        self._planner = Planner(
            run,
            optimization_target="sla",
            enable_load_scaling=True,
            enable_throughput_scaling=True,
            ttft_ms=run.ttft * 1000 * scale,
            itl_ms=run.tpot * 1000 * scale,
            load_scaling_down_sensitivity=round(sensitivity),
            throughput_adjustment_interval_seconds=every,
            load_predictor=predictor,
        )
        known: Any = import_module("dynamo.planner.core.load.predictors")
        self._predictors = [known.LOAD_PREDICTORS[predictor](self._planner.config) for _ in range(3)]
        self._step, self._window = Pages(10.0), Pages(float(every))
        self._loop, self._throughput = Every(LOAD_INTERVAL), Every(float(every))

    def tick(self, seen: Snapshot) -> int | None:
        """No records keep the size; an interval without a page is not forecast from."""
        if not self._loop.due(seen.now) or seen.page is None or not seen.ready:
            return None
        page = parse(seen.page[1])
        if page.kv_usage is None or page.waiting is None:
            return None
        self._step.add(seen.page[0], page)
        self._window.add(seen.page[0], page)
        forecast = self._forecast() if self._throughput.due(seen.now) else None
        workers = self._planner.workers(page, self._step.delta, seen.ready)
        return self._planner.decide(seen, workers, forecast)

    @property
    def floor(self) -> int:
        """Replicas below which its load loop may not go."""
        return int(self._planner.state.diagnostics().throughput_lower_bound_decode)

    def _forecast(self) -> Forecast | None:
        delta, seconds = self._window.delta, self._window.span
        if delta is None or not seconds or delta.arrivals is None:
            return None
        figures = (delta.arrivals, mean_prompt(delta), mean_output(delta))
        for predictor, figure in zip(self._predictors, figures, strict=True):
            # Mean lengths of an interval without requests are no figures.
            if figure or predictor is self._predictors[0]:
                predictor.add_data_point(figure)
        requests, prompt, output = (float(each.predict_next()) for each in self._predictors)
        return Forecast(seconds, max(0.0, requests), prompt, output)
