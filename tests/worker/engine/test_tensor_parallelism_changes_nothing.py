"""A model cut over several devices gives one device's logits within the bound, and sizes that cannot be are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev.worker.models import RANDOM_MODELS
from tests.worker.support import random_model
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.errors import SettingsError
from tierwright_worker.models.config import config_from_hf
from tierwright_worker.models.parallel import check_devices

BOUND = 1e-4  # the logits of these models spread over a few units
# Devices are counted once per process, so that a process of its own is needed to have several.
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from tests.worker.support import random_model
from tierwright_worker.engine.executor import Executor
from tierwright_worker.engine.programs import ProgramStore
from tierwright_worker.engine.shapes import plan_shapes
from tierwright_worker.models.layout import PLAIN

name, folder = sys.argv[1], Path(sys.argv[2])
config, parameters = random_model(name, folder)
shapes = plan_shapes(slots=2, max_context=128, draft_tokens=2, prefill_buckets=(64,))
tokens = (np.arange(63, dtype=np.int32) * 7) % config.vocab_size
for devices in (1, *map(int, sys.argv[3:])):
    executor = Executor(config, parameters, shapes, layout=PLAIN, devices=devices, page_tokens=32)
    for _ in range(2):  # compiled, then loaded
        executor.build(ProgramStore(folder / "programs", key=name))
    executor.prefill(1, 0, tokens[:60].tolist(), 64)
    executor.restore(executor.to_host(executor.save(1, 0)), 0, 0)
    result = executor.step(np.stack([tokens[32:35], tokens[60:63]]), np.asarray([32, 60], np.int32))
    seen = result.host_logits().copy()
    expected = seen if devices == 1 else expected
    print(devices, np.abs(seen - expected).max(), bool((result.best == expected.argmax(-1)).all()))
"""


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("llama3_tied_one_kv_head", ["2", "4"]), ("llama_all_biases_no_groups", ["4"]), ("qwen3_tied", ["2"])],
)
def test_logits_are_those_of_one_device(tmp_path: Path, name: str, sizes: list[str]) -> None:
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, str(tmp_path), *sizes],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines] == ["1", *sizes]
    for _, difference, same in lines:
        assert float(difference) < BOUND
        assert same == "True"


def test_more_devices_than_there_are_is_refused() -> None:
    config = config_from_hf(RANDOM_MODELS["llama"], where="llama")
    with pytest.raises(SettingsError, match="only 1 devices are there; possible here: 1"):
        check_devices(config, 2)


def test_a_size_that_does_not_divide_the_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_from_hf(RANDOM_MODELS["llama"], where="llama")
    monkeypatch.setattr("tierwright_worker.models.parallel.jax.devices", lambda: [object()] * 4)
    with pytest.raises(SettingsError, match=r"3 does not divide 4 heads.* possible here: 1, 2, 4"):
        check_devices(config, 3)


def test_an_executor_refuses_devices_that_are_not_there(tmp_path: Path) -> None:
    config, parameters = random_model("llama", tmp_path)
    shapes = plan_shapes(slots=1, max_context=128, draft_tokens=0)
    with pytest.raises(SettingsError, match="tensor-parallel-size 8"):
        Executor(config, parameters, shapes, devices=8)
