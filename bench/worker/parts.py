"""The parts of a run, in their order: each measures, and gives figures and all that they come from."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from bench.worker.engines import measure_llamacpp, measure_vllm
from bench.worker.own import measure_gears, measure_process, measure_steps
from bench.worker.roofline import measure_roofline
from bench.worker.setup import Setup
from tierwright_worker.loading.model import hugging_face_folder
from tierwright_worker.models.config import read_config


def measure_machine(setup: Setup) -> dict[str, Any]:
    """What the machine could do at best with this model's weights; gives no figure, but what to see the others by."""
    config = read_config(hugging_face_folder(setup.model, cache=setup.cache, dtype="float32"))
    embedding = config.vocab_size * config.hidden_size * (1 if config.tied_embeddings else 2)
    roofline = measure_roofline(config.parameters, config.parameters - embedding)
    setup.say(
        f"at most {roofline.steps_per_second:.1f} plain steps and {roofline.prompt_tokens_per_second:.0f} prompt tokens per second"
    )
    return {
        "figures": {},
        "roofline": {
            **asdict(roofline),
            "steps_per_second": roofline.steps_per_second,
            "prompt_tokens_per_second": roofline.prompt_tokens_per_second,
        },
    }


Measure = Callable[[Setup], dict[str, Any]]
MEASURES: Mapping[str, Measure] = {
    "machine": measure_machine,
    "steps": measure_steps,
    "process": measure_process,
    "gears": measure_gears,
    "vllm": measure_vllm,
    "llamacpp": measure_llamacpp,
}
GROUPS: Mapping[str, tuple[str, ...]] = {"own": ("steps", "process", "gears")}
"""Names that stand for several parts."""
