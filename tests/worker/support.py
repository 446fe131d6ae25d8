"""Builds models, executors and engines for tests, and runs requests through an engine to their end."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import save_file

from dev.worker.models import write_random_model
from tierwright_worker.engine.cached_prompts import CachedPrompts
from tierwright_worker.engine.draft_model import DraftModel
from tierwright_worker.engine.executor import Executor, WarmUp
from tierwright_worker.engine.interface import QueueLimits, SamplingParams, SpeculationLimits
from tierwright_worker.engine.loop import Engine, EngineSettings
from tierwright_worker.engine.policies.acceptance import LayeredRule
from tierwright_worker.engine.program_key import compile_environment
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.engine.sequence import Output, Request
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.engine.warm_up import warm_up
from tierwright_worker.models.config import ModelConfig, read_config
from tierwright_worker.models.layout import Layout
from tierwright_worker.models.parameters import Parameters
from tierwright_worker.weights.assemble import load_parameters
from tierwright_worker.weights.safetensors_folder import SafetensorsFolder

TINY_LENGTHS = (128, 256)


@dataclass(frozen=True)
class Bench:
    """A warmed executor that engines with different settings may use one after the other."""

    executor: Executor
    warmed: WarmUp

    def engine(
        self,
        *,
        draft_tokens: int = 0,
        max_queue: int = 1000,
        end_tokens: Iterable[int] = (),
        disable_above_batch: int | None = None,
        prompts: CachedPrompts | None = None,
        drafter: DraftModel | None = None,
        layered: LayeredRule | None = None,
    ) -> Engine:
        """A fresh engine on this executor."""
        self.executor.clear()
        return Engine(
            self.executor,
            self.warmed,
            EngineSettings(
                queue=QueueLimits(max_requests=max_queue),
                speculation=SpeculationLimits(draft_tokens, disable_above_batch),
                prefill_token_limit=64,
                end_tokens=frozenset(end_tokens),
                layered=layered,
            ),
            prompts,
            drafter,
        )


def bench(
    config: ModelConfig,
    parameters: Parameters,
    *,
    slots: int,
    max_context: int,
    draft_tokens: int,
    lengths: tuple[int, ...] = (),
    folder: Path | None = None,
    page_tokens: int = 0,
    dtype: str = "float32",
    exact: bool = True,
    layout: Layout | None = None,
    kv_dtype: str = "",
) -> Bench:
    """A warmed executor; its programs are kept in `folder`. `dtype`: of the parameters, and of keys and values too
    unless `kv_dtype` says otherwise. `layout` None: the processor's kernels where they are built.

    `exact`: use one shape alone where two disagree in a bit; only in f32.
    """
    shapes = plan_shapes(
        slots=slots, max_context=max_context, draft_tokens=draft_tokens, length_buckets=lengths
    )
    executor = Executor(
        config, parameters, shapes, page_tokens=page_tokens, kv_dtype=kv_dtype or dtype, layout=layout
    )
    environment = compile_environment().key()
    store = ProgramStore(folder, key=f"{config}{shapes}{dtype}{kv_dtype}{page_tokens}{environment}")
    return Bench(executor, warm_up(executor, store, require_exact=exact and dtype == "float32"))


def draft_model(
    machine: Bench, *, end_tokens: Iterable[int] = (), prompts: CachedPrompts | None = None
) -> DraftModel:
    """A drafter on a fresh cache, for a target of the small models' vocabulary."""
    machine.executor.clear()
    return DraftModel(
        machine.executor,
        machine.warmed,
        vocabulary=machine.executor.config.vocab_size,
        end_tokens=frozenset(end_tokens),
        prefill_token_limit=64,
        prompts=prompts,
    )


def random_model(name: str, folder: Path, dtype: str = "float32") -> tuple[ModelConfig, Parameters]:
    """One of the small random models, through its files."""
    write_random_model(name, folder, lambda tensors, path: save_file(tensors, path))
    config = read_config(folder)
    return config, load_parameters(SafetensorsFolder(folder), config, dtype)


def read_bench(name: str, folder: Path) -> Bench:
    """A small random model with three slots and two length buckets."""
    config, parameters = random_model(name, folder)
    return bench(config, parameters, slots=3, max_context=256, draft_tokens=4, lengths=TINY_LENGTHS)


def greedy(max_tokens: int, **more: object) -> SamplingParams:
    """Greedy parameters."""
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def run(engine: Engine, requests: Iterable[Request]) -> dict[str, list[Output]]:
    """Submit all requests at once and iterate until the engine is idle; their outputs in order."""
    outputs: dict[str, list[Output]] = {}
    for request in requests:
        assert engine.submit(request).admitted
        outputs[request.id] = []
    for _ in range(100_000):
        if not engine.busy:
            return outputs
        for output in engine.iterate():
            outputs[output.id].append(output)
    raise AssertionError("the engine never became idle")


def texts(outputs: dict[str, list[Output]]) -> dict[str, list[int]]:
    """The tokens of every request."""
    return {name: [token for part in parts for token in part.tokens] for name, parts in outputs.items()}
