"""A tokenizer of single bytes with a ChatML template, for tests that need text but no model."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tierwright_worker.tokenizer.chat_template import ChatTemplate
from tierwright_worker.tokenizer.text import TextCodec

TEMPLATE = """{%- if tools -%}<|im_start|>tools
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% endif %}
{%- for message in messages -%}
{%- if message.content == 'refuse me' %}{{ raise_exception('no such words') }}{% endif -%}
<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}[call {{ call.function.name }} {{ call.function.arguments | tojson }}]{% endfor -%}
<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    return tokenizer


CODEC = TextCodec(_tokenizer(), ChatTemplate(TEMPLATE, {}), {})
WITHOUT_TEMPLATE = TextCodec(CODEC.tokenizer, None, {})
END: int = CODEC.tokenizer.token_to_id("<|im_end|>") or 0


def tokens_of(text: str) -> tuple[int, ...]:
    """A text's tokens, one per byte."""
    return tuple(CODEC.encode(text, add_special_tokens=False))
