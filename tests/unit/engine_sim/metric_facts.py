"""Reduces a /metrics page to facts that do not change from run to run: names, types, labels and buckets.

`python -m tests.unit.engine_sim.metric_facts PAGE > tests/unit/engine_sim/vllm_metric_families.json` writes the
fixture from a page saved from a real vLLM, with the families that only speculation adds behind a line of `# ----`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

# Labels whose values are a closed set; all of them stand on the page from the start.
ENUMERATED = ("reason", "source", "finished_reason", "sleep_state", "position")
SEPARATOR = "# ----"


def facts_of(page: str) -> dict[str, dict[str, Any]]:
    """Family name to its type, label names, bucket bounds (histograms) and values of enumerated labels."""
    facts = {}
    for family in text_string_to_metric_families(page):
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        entry: dict[str, Any] = {"type": family.type, "labels": sorted(labels)}
        bounds = {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}
        if bounds:
            entry["buckets"] = [str(bound) for bound in sorted(bounds)]
        for label in ENUMERATED:
            if label in labels:
                entry[label] = sorted({sample.labels[label] for sample in family.samples})
        facts[family.name] = entry
    return facts


def main() -> None:
    """Print the facts of the page named on the command line."""
    always, _, speculation = Path(sys.argv[1]).read_text(encoding="utf-8").partition(SEPARATOR)
    facts = {"always": facts_of(always), "with_speculation": facts_of(speculation.partition("\n")[2])}
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
