"""Says in one document how busy an engine is, what decides on speculation, what is exact, and how full its caches are."""

from typing import Any

from tierwright_worker.engine.service import EngineFacts, EngineState


def load_report(facts: EngineFacts, state: EngineState) -> dict[str, Any]:
    """The engine's part of /load; the fields are described in docs/reference/worker-api.md."""
    speculation = facts.speculation
    return {
        "running": state.running,
        "waiting": state.waiting,
        "slots": facts.slots,
        "kv_cache_usage": state.cache_usage,
        "speculation": {
            "method": speculation.method,
            "state": state.speculation,
            "acceptance": state.acceptance,
            "most_tokens": speculation.most_tokens,
            "drafting": {str(tokens): requests for tokens, requests in sorted(state.drafting.items())},
            "disabled_above_batch": speculation.disabled_above_batch,
            "lossy": speculation.lossy,
            "bent_tokens": state.bent_tokens,
        },
        "exactness": {"row_exact": facts.row_exact, "agreement": facts.agreement},
        "prompt_cache": {
            level: {"pages": state.cache_pages.get(level, 0), "room": room}
            for level, room in facts.cache_pages.items()
        },
    }
