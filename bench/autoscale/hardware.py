"""The engines that the benchmark's fleets are made of: their step times, and how many accelerators one of them takes."""

from dataclasses import dataclass

from bench.autoscale.cheap import A100_8B, H100_8B
from tierwright.planning.engine import Hardware


@dataclass(frozen=True, slots=True)
class Engine:
    """One kind of replica. `setup` names its rows of the latency tables; those are multiplied by the two factors."""

    hardware: Hardware
    setup: str
    accelerators: int = 1
    decode: float = 1.0
    prefill: float = 1.0


def _assumed(name: str, off: float) -> Engine:
    """An 8B model on one Inferentia2 chip: nobody publishes its step times, so the A100's are stretched by the ratios of the data sheets.

    Memory bandwidth 2,039 over 820 GB/s for decode steps, 312 over 190 TFLOP/s for prefill, 14 GB left for the cache.
    """
    decode, prefill = 2039 / 820 * off, 312 / 190 * off
    a100 = A100_8B
    hardware = Hardware(
        name,
        *(a100.fixed * decode, a100.batch * decode, a100.context * decode, a100.prefill * prefill),
        kv_blocks=6_700,
    )
    return Engine(hardware, "llama31-8b_a100_tp1", decode=decode, prefill=prefill)


ENGINES = {
    each.hardware.name: each
    for each in (
        Engine(A100_8B, "llama31-8b_a100_tp1"),
        Engine(H100_8B, "llama31-8b_h100_tp1"),
        Engine(
            Hardware("70b-h100x4", 15.17e-3, 32.1e-6, 26.9e-9, 59.83e-6),
            "llama31-70b_h100_tp4",
            accelerators=4,
        ),
        _assumed("8b-inf2-assumed", 1.0),
        _assumed("8b-inf2-assumed-30pc-faster", 0.7),
        _assumed("8b-inf2-assumed-30pc-slower", 1.3),
        Engine(Hardware("8b-rtxpro6000", 10.88e-3, 15.7e-6, 87.6e-9, 39.96e-6), "llama31-8b_rtxpro6000_tp1"),
        Engine(
            Hardware("32b-rtxpro6000x2", 13.61e-3, 24.3e-6, 42.2e-9, 48.42e-6),
            "qwen3-32b_rtxpro6000_tp2",
            accelerators=2,
        ),
    )
}
"""By name. Coefficients (seconds) are fits of aiconfigurator-core 0.12.0's tables, 1 to 4 % off on average."""
