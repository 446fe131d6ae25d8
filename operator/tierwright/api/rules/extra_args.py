"""Rules on extraArgs: an argument that sets what a typed field or the operator sets is refused in every spelling.

The JAX worker spells its arguments as vLLM does where it has the same. vLLM's parser accepts `_` for `-`, an
unambiguous beginning of a name, `--no-` before a switch, `=value` glued to a name, a value glued to a one-letter form,
and `.key` after the name of a JSON argument.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from tierwright.api.engine import EngineSpec
from tierwright.api.rules.rule import AnyRule, Rule, cel_list

_FIRST_IS_FLAG: Final = (
    "the first of extraArgs is no flag, so the engine would take it for the model; begin with --name"
)
_END_OF_FLAGS: Final = "'--' ends the flags, so that the engine reads what follows as the model; remove it"


@dataclass(frozen=True)
class FlagGroup:
    """Flags of the engine that one typed field, or the operator itself, sets."""

    instead: str
    """What to do instead, the second half of the message."""
    flags: tuple[str, ...]
    """Whole names; every beginning of one of them is refused too, since the parser completes it."""
    stems: tuple[str, ...] = ()
    """Whatever begins with one of these is refused."""

    @property
    def message(self) -> str:
        """The words of the refusal."""
        return f"extraArgs sets {self.flags[0]} in one of its spellings; {self.instead}"


def _field(field: str, *flags: str, stems: tuple[str, ...] = ()) -> FlagGroup:
    return FlagGroup(f"remove it and set {field}", flags, stems)


def _operator(why: str, *flags: str, stems: tuple[str, ...] = ()) -> FlagGroup:
    return FlagGroup(f"remove it: {why}", flags, stems)


GROUPS: Final = (
    _field("model.source", "--model", "--revision"),
    _field("model.name", "--served-model-name"),
    _field("model.tokenSecretRef", "--hf-token"),
    _field("cache.weights", "--download-dir"),
    _field("engine.tensorParallel", "--tensor-parallel-size", "-tp"),
    _field("engine.pipelineParallel", "--pipeline-parallel-size", "-pp"),
    _field("engine.dataParallel", "--data-parallel-size", "-dp"),
    _field("engine.maxModelLen", "--max-model-len"),
    _field("engine.dtype", "--dtype"),
    _field("engine.quantization", "--quantization", "-q", stems=("-q",)),
    _field("engine.batching.maxSequences", "--max-num-seqs"),
    _field("engine.batching.maxBatchedTokens", "--max-num-batched-tokens"),
    _field("engine.batching.chunkedPrefill", "--enable-chunked-prefill", "--no-enable-chunked-prefill"),
    _field(
        "engine.speculation",
        "--speculative-config",
        "-sc",
        "--spec-method",
        "--spec-model",
        "--spec-tokens",
        "--speculation-method",
        "--speculation-disable-above-batch",
        stems=("--spec-", "--speculative-", "--speculation-"),
    ),
    _field("engine.kvCache.dtype", "--kv-cache-dtype"),
    _field("engine.kvCache.memoryFraction", "--gpu-memory-utilization", "--device-memory-utilization"),
    _field("engine.kvCache.blockSize", "--block-size", "--prompt-cache-page"),
    _field("engine.promptCache.ttl", "--prompt-cache-ttl"),
    _field("engine.jax.lengthBuckets", "--length-buckets"),
    _field("engine.jax.prefillBuckets", "--prefill-buckets"),
    _field("hardware.accelerator", "--platform"),
    _field("engine.kvCache.hostOffload", "--kv-offloading-size"),
    _field("engine.promptCache.enabled", "--enable-prefix-caching", "--no-enable-prefix-caching"),
    _field("rollout.drainTimeout", "--shutdown-timeout"),
    _field(
        "hardware.hosts",
        "--nnodes",
        "-n",
        "--node-rank",
        "-r",
        "--master-addr",
        "--master-port",
        "--headless",
        "--data-parallel-address",
        "-dpa",
        "--data-parallel-external-lb",
        "--no-data-parallel-external-lb",
        "-dpe",
        "--data-parallel-hybrid-lb",
        "--no-data-parallel-hybrid-lb",
        "-dph",
        "--data-parallel-multi-port-external-lb",
        "-dpm",
        "--data-parallel-rank",
        "-dpn",
        "--data-parallel-rpc-port",
        "-dpp",
        "--data-parallel-size-local",
        "-dpl",
        "--data-parallel-start-rank",
        "-dpr",
        stems=("-n", "-r"),
    ),
    _operator("a file could set any field; write its settings as fields and arguments", "--config"),
    _operator("the operator chooses where the engine listens", "--port", "--host", "--uds", "--grpc"),
    _operator(
        "probes and gateway speak plain HTTP to the engine; end TLS before them",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--ssl-ca-certs",
        "--ssl-cert-reqs",
        "--root-path",
    ),
    _operator(
        "the tier's compile volume is mounted where it has to be", "--compile-cache", "--weights-cache"
    ),
    _operator("the tier is measured by the engine's metrics", "--disable-log-stats"),
    _operator(
        "the operator lays the bounds by which the tier's objectives are judged", "--custom-histogram-buckets"
    ),
    _operator("the engine would print a page and end", "--help", "-h", stems=("-h",)),
)


def flag_name(argument: str) -> str:
    """The name in an argument as the parser reads it: without value and JSON path, with `-` for `_`."""
    return argument.replace("_", "-").split("=")[0].split(".")[0]


_NAMES_CEL: Final = (
    "self.extraArgs.map(argument, argument.replace('_', '-').split('=')[0].split('.')[0])"
    ".filter(name, name.size() > 1 && name != '--')"
)


def sets(group: FlagGroup, argument: str) -> bool:
    """Whether the argument sets what the group stands for."""
    name = flag_name(argument)
    if len(name) < 2 or name == "--" or name in _others(group):
        return False
    return any(flag.startswith(name) for flag in group.flags) or name.startswith(group.stems)


@cache
def _others(group: FlagGroup) -> tuple[str, ...]:
    """Whole names of other groups that a name of this one begins with: the parser takes them for what they are."""
    return tuple(
        flag
        for other in GROUPS
        if other is not group
        for flag in other.flags
        if any(name.startswith(flag) for name in group.flags)
    )


def _refuses(group: FlagGroup) -> AnyRule:
    tests = [f"{cel_list(group.flags)}.exists(flag, flag.startsWith(name))"]
    tests += [f"name.startsWith('{stem}')" for stem in group.stems]
    test = " || ".join(tests)
    if others := _others(group):
        test = f"!(name in {cel_list(others)}) && ({test})"
    return _extra_args(
        f"!has(self.extraArgs) || !{_NAMES_CEL}.exists(name, {test})",
        group.message,
        lambda engine: not any(sets(group, argument) for argument in engine.extra_args),
    )


def _extra_args(cel: str, message: str, holds: Callable[[EngineSpec], bool]) -> AnyRule:
    return Rule[EngineSpec](at="spec.engine", field="extraArgs", cel=cel, message=message, holds=holds)


def _bytes_without_fraction(engine: EngineSpec) -> bool:
    return engine.kv_cache.memory_fraction is None or not any(
        flag_name(argument) == "--kv-cache-memory-bytes" for argument in engine.extra_args
    )


RULES: Final[tuple[AnyRule, ...]] = (
    _extra_args(
        "!has(self.extraArgs) || self.extraArgs.size() == 0 || self.extraArgs[0].startsWith('-')",
        _FIRST_IS_FLAG,
        lambda engine: not engine.extra_args or engine.extra_args[0].startswith("-"),
    ),
    _extra_args(
        "!has(self.extraArgs) || !('--' in self.extraArgs)",
        _END_OF_FLAGS,
        lambda engine: "--" not in engine.extra_args,
    ),
    _extra_args(
        "!has(self.extraArgs) || !has(self.kvCache) || !has(self.kvCache.memoryFraction) || "
        f"!{_NAMES_CEL}.exists(name, name == '--kv-cache-memory-bytes')",
        "--kv-cache-memory-bytes makes the engine ignore kvCache.memoryFraction; remove one of them",
        _bytes_without_fraction,
    ),
    *(_refuses(group) for group in GROUPS),
)
