"""Decides what a request will generate: its choices' texts, ends and cache hashes, before the first step runs."""

from dataclasses import dataclass

from dev.engine_sim.config import EngineConfig
from dev.engine_sim.engine import Job
from dev.engine_sim.protocol import GenerationRequest, Prompt, bad_request
from dev.engine_sim.settings import Settings
from dev.engine_sim.speculation import Speculation
from dev.engine_sim.steps import Request
from dev.engine_sim.text import answer_to, block_hashes, draftable, pieces_of


@dataclass(frozen=True)
class Choice:
    """One answer: `texts[i]` is what the client sees of token i; the end-of-text token and a cut stop string show as ""."""

    index: int
    prompt: Prompt
    job: Job
    texts: tuple[str, ...]
    finish_reason: str
    stop_reason: str | None

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.texts)


def choices_of(
    asked: GenerationRequest, request_id: str, config: EngineConfig, settings: Settings
) -> tuple[Choice, ...]:
    """The choices of a request, `n` for each prompt; ApiError 400 where it does not fit the model's length."""
    return tuple(
        _choice(asked, prompt, number * asked.n + copy, copy, request_id, config, settings)
        for number, prompt in enumerate(asked.prompts)
        for copy in range(asked.n)
    )


def check_length(prompt_tokens: int, max_tokens: int | None, max_model_len: int) -> int:
    """The most tokens that may be generated; ApiError 400 where prompt and answer exceed the model's length."""
    room = max_model_len - prompt_tokens
    if room < 1 or (max_tokens is not None and max_tokens > room):
        wanted = f" and {max_tokens} tokens were asked for" if max_tokens is not None else ""
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens, but the prompt has {prompt_tokens}{wanted}; "
            "shorten the prompt or lower max_tokens",
            "input_tokens" if room < 1 else "max_tokens",
        )
    return room if max_tokens is None else max_tokens


def _choice(
    asked: GenerationRequest,
    prompt: Prompt,
    index: int,
    copy: int,
    request_id: str,
    config: EngineConfig,
    settings: Settings,
) -> Choice:
    prompt_pieces = pieces_of(prompt.text)
    max_tokens = check_length(len(prompt_pieces), asked.max_tokens, config.max_model_len)
    seed = config.seed if asked.seed is None else asked.seed
    answer = answer_to(
        prompt.text,
        prompt.source,
        "greedy" if asked.temperature == 0 else f"seed {seed} copy {copy}",
        at_least=max_tokens if asked.ignore_eos else asked.min_tokens,
        at_most=max_tokens,
    )
    pieces, copied, reason = answer.pieces, answer.copied, "length"
    if len(pieces) < max_tokens:
        pieces, copied, reason = (*pieces, ""), (*copied, False), "stop"
    texts, stop_reason = cut_at_stop(pieces, asked.stop, asked.include_stop, asked.min_tokens)
    if stop_reason is not None:
        reason = "stop"
    pieces, copied = pieces[: len(texts)], copied[: len(texts)]
    request = Request(
        request_id=f"{request_id}-{index}",
        prompt_tokens=len(prompt_pieces),
        output_tokens=len(texts),
        block_hashes=block_hashes((*prompt_pieces, *pieces), config.block_size, asked.cache_salt),
        draftable=_draftable(prompt.text, copied, config.speculation, settings),
    )
    return Choice(index, prompt, Job(request, reason, asked.n, max_tokens), texts, reason, stop_reason)


def cut_at_stop(
    pieces: tuple[str, ...], stops: tuple[str, ...], include_stop: bool, min_tokens: int = 0
) -> tuple[tuple[str, ...], str | None]:
    """The visible text of each token up to the one that completes the earliest stop string, and that string."""
    full = "".join(pieces)
    protected = sum(len(piece) for piece in pieces[:min_tokens])
    found = [(start + len(stop), start, stop) for stop in stops if (start := full.find(stop, protected)) >= 0]
    if not found:
        return pieces, None
    end, start, stop = min(found)
    visible = end if include_stop else start
    texts = []
    position = 0
    for piece in pieces:
        texts.append(piece[: max(0, visible - position)])
        position += len(piece)
        if position >= end:
            break
    return tuple(texts), stop


def _draftable(
    prompt: str, copied: tuple[bool, ...], speculation: Speculation | None, settings: Settings
) -> tuple[bool, ...]:
    if speculation is None:
        return ()
    if speculation.has_draft_model:
        chances = (settings.acceptance_draft_model, settings.acceptance_draft_model)
    else:
        chances = (settings.acceptance_copied, settings.acceptance_free)
    return draftable(prompt, copied, chance_copied=chances[0], chance_free=chances[1])
