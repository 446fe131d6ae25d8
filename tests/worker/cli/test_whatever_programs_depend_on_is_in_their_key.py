"""Every fact that compiled code depends on changes the name under which it is kept, and nothing else does."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dev.worker.models import RANDOM_MODELS
from tierwright_worker.cli.precision import Precision
from tierwright_worker.cli.stores import programs_key
from tierwright_worker.engine import program_key
from tierwright_worker.engine.interface import Shapes
from tierwright_worker.engine.program_key import CompileEnvironment, compile_environment
from tierwright_worker.models.config import ModelConfig, config_from_hf
from tierwright_worker.models.layout import PLAIN, Layout
from tierwright_worker.models.rope_scaling import RopeScaling

CONFIG = config_from_hf(RANDOM_MODELS["llama"], where="llama")
SHAPES = Shapes(slots=2, step_rows=(1, 5), length_buckets=(128, 256), prefill_buckets=(64,))
PRECISION = Precision("float32", "float32", PLAIN, 1)
ENVIRONMENT = CompileEnvironment(
    worker="0.1.0",
    jax="0.9.0",
    jaxlib="0.9.0",
    platform="cpu",
    platform_version="cpu",
    device="cpu",
    cpu_features="flags : avx2 fma",
    cores=2,
    xla_flags="",
    neuron_flags="",
    compiler_options="[]",
    kernels="1",
    source="abc",
)


def key(
    config: ModelConfig = CONFIG,
    shapes: Shapes = SHAPES,
    precision: Precision = PRECISION,
    page: int = 64,
    environment: CompileEnvironment = ENVIRONMENT,
) -> str:
    """The key, with one part changed."""
    return programs_key(config, shapes, precision, page, environment)


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value} avx512f"
    if isinstance(value, tuple):
        return (*value, 512)
    if isinstance(value, RopeScaling):
        return replace(value, factor=value.factor + 1)
    if isinstance(value, Layout):
        return Layout(kernels=not value.kernels)
    assert value is None
    return 1


def changed(part: Any) -> Iterator[tuple[str, Any]]:
    """The part with each of its fields changed, one at a time."""
    for field in fields(part):
        yield field.name, replace(part, **{field.name: other(getattr(part, field.name))})


def test_each_field_of_each_part_makes_another_key() -> None:
    found = {
        "as it was": key(),
        "page": key(page=128),
        **{f"model {name}": key(config=part) for name, part in changed(CONFIG)},
        **{f"shapes {name}": key(shapes=part) for name, part in changed(SHAPES)},
        **{f"precision {name}": key(precision=part) for name, part in changed(PRECISION)},
        **{f"environment {name}": key(environment=part) for name, part in changed(ENVIRONMENT)},
    }
    assert {"precision devices", "precision read", "precision cache", "environment cpu_features"} <= set(
        found
    )
    names_of = {value: [name for name in found if found[name] == value] for value in found.values()}
    assert [names for names in names_of.values() if len(names) > 1] == []


def test_the_same_facts_make_the_same_key() -> None:
    assert key(config=replace(CONFIG), shapes=replace(SHAPES), environment=replace(ENVIRONMENT)) == key()
    assert compile_environment() == compile_environment()


def test_parts_cannot_pass_for_one_another() -> None:
    """Joined without their places, `a` and `bc` would be what `ab` and `c` are."""
    first = replace(ENVIRONMENT, jax="0.9", jaxlib="01.0")
    assert replace(first, jax="0.90", jaxlib="1.0").key() != first.key()


def test_the_processors_features_are_read_as_its_architecture_names_them(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    for line in ("flags\t\t: fpu sse2 avx2", "Features\t: fp asimd"):
        info.write_text(f"processor\t: 0\nvendor_id\t: any\n{line}\nbogomips\t: 1\n")
        assert program_key._cpu_features(info) == line
    assert program_key._cpu_features(tmp_path / "nothing") == "unknown"
