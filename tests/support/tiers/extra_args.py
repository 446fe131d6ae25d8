"""Tiers whose extraArgs set what a typed field or the operator sets, in every spelling."""

from typing import Final

from tests.support.tiers.cases import Case, with_args


def _flag(words: str, *spellings: str) -> tuple[Case, ...]:
    return tuple(
        Case("spec.engine.extraArgs", f"extraArgs sets {words} in one", with_args(*spelling.split(" ")))
        for spelling in spellings
    )


EXTRA_ARGS: Final[tuple[Case, ...]] = (
    Case(
        "spec.engine.extraArgs", "the first of extraArgs is no flag", with_args("owner/other", "--seed", "3")
    ),
    Case("spec.engine.extraArgs", "'--' ends the flags", with_args("--seed", "3", "--")),
    Case(
        "spec.engine.extraArgs",
        "--kv-cache-memory-bytes makes",
        with_args("--kv_cache_memory_bytes=1G") | {"engine.kvCache.memoryFraction": "0.9"},
    ),
    *_flag("--model", "--model=x", "--mode x", "--revision main", "--revis=main"),
    *_flag("--served-model-name", "--served_model_name x", "--served=x"),
    *_flag("--custom-histogram-buckets", "--custom-histogram-buckets={}", "--custom_histogram_b x"),
    *_flag("--hf-token", "--hf-token x", "--hf_token"),
    *_flag("--download-dir", "--download-dir /x", "--downl=/x"),
    *_flag(
        "--tensor-parallel-size",
        "--tensor-parallel-size 2",
        "--tensor_parallel_size=2",
        "--tensor-par 2",
        "-tp 2",
        "-tp=2",
    ),
    *_flag("--pipeline-parallel-size", "-pp 2", "--pipeline-parallel-size=2"),
    *_flag("--data-parallel-size", "-dp 2", "--data-parallel-size=2", "--seed 3 --data_parallel_size 2"),
    *_flag("--max-model-len", "--max-model-len=1k", "--max_model_len 16"),
    *_flag("--dtype", "--dtype half", "--dty=half"),
    *_flag("--quantization", "-q fp8", "-q=fp8", "-qfp8", "--quantization=awq", "--quant awq"),
    *_flag("--max-num-seqs", "--max-num-seqs 4", "--max_num_seqs=4", "--max-num-se 4"),
    *_flag("--max-num-batched-tokens", "--max-num-batched-tokens=4", "--max-num-b 4"),
    *_flag(
        "--enable-chunked-prefill",
        "--enable-chunked-prefill",
        "--no-enable-chunked-prefill",
        "--no_enable_chunked_prefill",
        "--enable-chunked",
    ),
    *_flag(
        "--speculative-config",
        "--speculative-config {}",
        "--speculative_config={}",
        "--speculative-config.method=ngram",
        "--speculative-config.method ngram",
        "--speculative-model x",
        "--spec-method ngram",
        "--spec_model x",
        "--spec-tokens=3",
        "--spec-anything",
        "--speculative-tokens 4",
        "--speculation-disable-above-batch 4",
        "--speculation_method=ngram",
        "-sc {}",
        "-sc.method ngram",
    ),
    *_flag("--kv-cache-dtype", "--kv-cache-dtype fp8", "--kv_cache_dt=fp8"),
    *_flag(
        "--gpu-memory-utilization",
        "--gpu-memory-utilization 0.5",
        "--device-memory-utilization=0.5",
        "--gpu=1",
    ),
    *_flag("--block-size", "--block-size 16", "--block_size=16", "--prompt-cache-page 64"),
    *_flag("--prompt-cache-ttl", "--prompt-cache-ttl 60"),
    *_flag("--length-buckets", "--length-buckets 128,256", "--length_b=128"),
    *_flag("--prefill-buckets", "--prefill-buckets=64"),
    *_flag("--platform", "--platform cpu"),
    *_flag("--compile-cache", "--compile-cache /x", "--weights-cache=/x"),
    *_flag("--kv-offloading-size", "--kv-offloading-size 4", "--kv_offloading_s=4"),
    *_flag(
        "--enable-prefix-caching", "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable_prefix"
    ),
    *_flag("--shutdown-timeout", "--shutdown-timeout 3", "--shut=3"),
    *_flag(
        "--nnodes", "--nnodes 2", "-n 2", "-n2", "-r1", "--headless", "-dpl 2", "--data-parallel-address x"
    ),
    *_flag("--config", "--config x.yaml", "--config=x.yaml"),
    *_flag("--port", "--port=1", "--host 0.0.0.0", "--uds /x", "--grpc"),
    *_flag("--ssl-keyfile", "--ssl-keyfile x", "--ssl_certfile=x", "--root-path /x"),
    *_flag("--disable-log-stats", "--disable-log-stats", "--disable_log_st"),
    *_flag("--help", "--help", "-h"),
)
