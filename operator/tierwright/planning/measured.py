"""Step times that were measured elsewhere, by a short name: for a plan before the tier has run.

Linear fits, 1-4 % mean relative error, to the kernel database of aiconfigurator-core 0.12.0 (Apache-2.0) for vLLM; the
fixed part is that of a decode step.
"""

from typing import Final

from tierwright.capacity.work import StepTime

MEASURED: Final[dict[str, StepTime]] = {
    "llama-3.1-8b/h100": StepTime(6.36e-3, 11.4e-6, 40.8e-9, 19.62e-6),
    "llama-3.1-8b/h200": StepTime(4.89e-3, 12.4e-6, 29.2e-9, 20.12e-6),
    "llama-3.1-8b/a100": StepTime(11.47e-3, 38.1e-6, 79.4e-9, 60.41e-6),
    "llama-3.1-8b/l40s": StepTime(22.25e-3, 37.9e-6, 186.7e-9, 64.53e-6),
    "llama-3.1-8b/rtx-pro-6000": StepTime(10.88e-3, 15.7e-6, 87.6e-9, 39.96e-6),
    "llama-3.1-70b/4xh100": StepTime(15.17e-3, 32.1e-6, 26.9e-9, 59.83e-6),
    "llama-3.1-70b/8xh100": StepTime(9.88e-3, 27.0e-6, 13.7e-9, 38.64e-6),
    "llama-3.1-70b/4xa100": StepTime(27.48e-3, 100.1e-6, 60.6e-9, 161.26e-6),
    "qwen3-32b/2xh100": StepTime(13.61e-3, 24.3e-6, 42.2e-9, 48.42e-6),
}
