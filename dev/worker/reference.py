"""Records what transformers computes for small random models and for SmolLM2; the worker's parity tests compare with it.

Run in the environment of the reference (`bash dev/worker_venv.sh parity`), from the repository's root:

    .venv-worker-parity/bin/python -m dev.worker.reference random            # seconds
    .venv-worker-parity/bin/python -m dev.worker.reference smollm2 FOLDER    # minutes; FOLDER: the converted model

The records are committed, so that the tests need no torch. `--check` computes them anew and compares instead of writing.
"""

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

from dev.worker.models import PROMPTS, RANDOM_MODELS, random_tokens, write_random_model

RECORDS = Path(__file__).resolve().parents[2] / "tests" / "worker" / "parity" / "records"
GREEDY_TOKENS = 48
RECORDED_EVERY = 5  # of the rows; keeps the record small
RANDOM_GREEDY_TOKENS = 24


def main(arguments: list[str]) -> int:
    """Write the records, or compare them; exit status 1 when they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["random", "smollm2"])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    record = random_records() if options.what == "random" else smollm2_record(options.folder)
    record = {"transformers": transformers.__version__, "torch": torch.__version__, **record}
    path = RECORDS / f"{options.what}.json.gz"
    if options.check:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            same = json.load(file) == record
        print(f"{path.name}: {'as recorded' if same else 'DIFFERS from what is recorded'}")
        return 0 if same else 1
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(record, indent=None, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(content, mtime=0))
    print(f"{path}: {path.stat().st_size} bytes")
    return 0


def random_records() -> dict[str, Any]:
    """Logits of a short sequence in f32 and bf16, and greedy tokens with the margin of each choice."""
    import tempfile

    records = {}
    for name in RANDOM_MODELS:
        with tempfile.TemporaryDirectory() as folder:
            write_random_model(name, Path(folder), save_file)
            model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            tokens = random_tokens(name)
            with torch.no_grad():
                logits = model(torch.tensor([tokens])).logits[0].numpy()
                half = model.to(torch.bfloat16)(torch.tensor([tokens])).logits[0].float().numpy()
                model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
                greedy, margins = greedy_tokens(model, tokens, RANDOM_GREEDY_TOKENS, frozenset())
        records[name] = {
            "logits": np.round(logits[::RECORDED_EVERY], 6).astype(np.float64).tolist(),
            "logits_bfloat16": np.round(half[::RECORDED_EVERY], 4).astype(np.float64).tolist(),
            "greedy": greedy,
            "margins": margins,
        }
    return {"models": records}


def smollm2_record(folder: Path) -> dict[str, Any]:
    """Prompt ids and greedy tokens of every prompt, and the last prompt row's largest logits."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = frozenset([2])
    records = []
    for prompt in PROMPTS:
        chat = [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            top = torch.topk(model(torch.tensor([ids])).logits[0, -1], 16)
            greedy, margins = greedy_tokens(model, ids, GREEDY_TOKENS, ends)
        records.append(
            {
                "prompt": prompt,
                "text": text,
                "ids": ids,
                "greedy": greedy,
                "margins": margins,
                "top_ids": top.indices.tolist(),
                "top_logits": [round(float(value), 5) for value in top.values],
                "answer": tokenizer.decode(greedy, skip_special_tokens=True),
            }
        )
        print(len(records), repr(records[-1]["answer"][:60]), flush=True)
    return {"prompts": records}


def greedy_tokens(
    model: Any, ids: list[int], count: int, ends: frozenset[int]
) -> tuple[list[int], list[float]]:
    """Greedy continuation with a key-value cache, and how far each choice was ahead of the next best."""
    out: list[int] = []
    margins: list[float] = []
    cache = None
    step = torch.tensor([ids])
    with torch.no_grad():
        while len(out) < count:
            result = model(step, past_key_values=cache, use_cache=True)
            cache = result.past_key_values
            best = torch.topk(result.logits[0, -1], 2)
            out.append(int(best.indices[0]))
            margins.append(round(float(best.values[0] - best.values[1]), 5))
            if out[-1] in ends:
                break
            step = torch.tensor([[out[-1]]])
    return out, margins


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
