"""Turns what a request says into the tokens that the engine reads, and cache marks into places among those tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from tierwright_worker.engine.policies.breakpoints import Breakpoint
from tierwright_worker.server.asked import Conversation, Mark, RawPrompt
from tierwright_worker.server.errors import ApiError, bad_request
from tierwright_worker.tokenizer.chat_template import ChatTemplateError
from tierwright_worker.tokenizer.text import TextCodec, TooManyTokensError


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt's tokens, its text where it was given as text, and where its breakpoints lie, in tokens."""

    tokens: tuple[int, ...]
    text: str
    breakpoints: tuple[Breakpoint, ...] = ()


@dataclass(frozen=True)
class PromptLimit:
    """Tokens that a prompt may have at most, and why, for messages."""

    tokens: int
    why: str


def context_limit(context: int) -> PromptLimit:
    """What a model of this context can read and still answer."""
    return PromptLimit(
        context - 1, f"the model's context is {context}, and at least one token must be left for the answer"
    )


def read_prompt(prompt: Conversation | RawPrompt, codec: TextCodec, limit: PromptLimit) -> ReadPrompt:
    """Render and tokenize; runs for as long as the text is long, so call it off the event loop.

    ApiError 400 where the template refuses, nothing is left to read, a token id is not the model's, or there are too
    many of them.
    """
    try:
        if isinstance(prompt, Conversation):
            return _read_conversation(prompt, codec, limit.tokens)
        return _read_raw(prompt, codec, limit.tokens)
    except TooManyTokensError as error:
        many = f"more than {error.most}" if error.count is None else error.count
        raise bad_request(f"the prompt has {many} tokens; {limit.why}") from None


def _read_raw(prompt: RawPrompt, codec: TextCodec, most: int) -> ReadPrompt:
    if prompt.text is not None:
        tokens = codec.encode(prompt.text, add_special_tokens=prompt.add_special_tokens, most=most)
        read = ReadPrompt(tuple(tokens), prompt.text)
    else:
        if len(prompt.tokens) > most:
            raise TooManyTokensError(most, len(prompt.tokens))
        unknown = next((token for token in prompt.tokens if token >= codec.size), None)
        if unknown is not None:
            raise bad_request(f"prompt: token id {unknown} is not one of the model's {codec.size}", "prompt")
        read = ReadPrompt(prompt.tokens, codec.decode(list(prompt.tokens)))
    if not read.tokens:
        raise bad_request("the prompt holds no token", "prompt")
    return read


def _read_conversation(prompt: Conversation, codec: TextCodec, most: int) -> ReadPrompt:
    text = render(prompt, codec) + prompt.opening
    tokens = tuple(codec.encode(text, add_special_tokens=False, most=most))
    if not tokens:
        raise bad_request("the chat template made an empty prompt of the messages", "messages")
    points = tuple(Breakpoint(_end_of(mark, prompt, tokens, codec), mark.seconds) for mark in prompt.marks)
    return ReadPrompt(tokens, text, points)


def render(prompt: Conversation, codec: TextCodec) -> str:
    """The text that the template makes of a conversation."""
    if codec.chat_template is None:
        raise bad_request("the model has no chat template; use /v1/completions with a prompt")
    if prompt.tools and not codec.chat_template.knows_tools:
        raise bad_request("the model's chat template knows no tools, so it would never see them", "tools")
    if prompt.continue_final and prompt.messages[-1]["role"] != "assistant":
        raise bad_request(
            "continue_final_message needs a last message of role assistant", "continue_final_message"
        )
    messages = prompt.messages[:-1] if prompt.continue_final else prompt.messages
    try:
        text = codec.chat_template.render(
            messages,
            tools=prompt.tools or None,
            add_generation_prompt=prompt.add_generation_prompt or prompt.continue_final,
            variables=prompt.variables,
        )
    except ChatTemplateError as error:
        raise bad_request(str(error), "messages") from None
    return text + str(prompt.messages[-1]["content"]) if prompt.continue_final else text


def _end_of(mark: Mark, prompt: Conversation, tokens: Sequence[int], codec: TextCodec) -> int:
    """Tokens up to and including a marked part: what the prompt shares with one that ends there.

    A template that refuses a conversation that ends so has no such place; then nothing is cached, and nothing fails.
    """
    if mark.message < 0:
        # All that tools add stands before the first message, whatever that says.
        shortened = Conversation(({"role": "user", "content": "."},), prompt.tools, False)
    else:
        last = prompt.messages[mark.message]
        content = "\n".join(prompt.parts[mark.message][: mark.part + 1])
        messages = (*prompt.messages[: mark.message], {**last, "content": content})
        shortened = Conversation(messages, prompt.tools, False)
    try:
        other = codec.encode(render(shortened, codec), add_special_tokens=False)
    except ApiError:
        return 0
    shared = 0
    for one, two in zip(tokens, other, strict=False):
        if one != two:
            break
        shared += 1
    return shared
