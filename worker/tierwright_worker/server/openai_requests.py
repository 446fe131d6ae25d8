"""Reads bodies of OpenAI's chat completions and completions, with vLLM's additions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from tierwright_worker.engine.interface import SamplingParams
from tierwright_worker.engine.policies.sampling import params_problem
from tierwright_worker.server.asked import Asked, Conversation, RawPrompt
from tierwright_worker.server.errors import bad_request
from tierwright_worker.server.fields import Fields, is_token

DEFAULT_COMPLETION_TOKENS = 16
MOST_CHOICES = 64
MOST_PROMPTS = 256
MOST_LOGPROBS = 20
MOST_STOPS = 64
LONGEST_STOP = 1000  # characters
MOST_STOP_TOKENS = 1024
MOST_BIASES = 1024
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
NOT_SUPPORTED = (
    "prompt_logprobs",
    "structured_outputs",
    "guided_json",
    "use_beam_search",
    "best_of",
    "suffix",
    "audio",
    "functions",
    "function_call",
)


def chat_request(body: Mapping[str, Any]) -> Asked:
    """A /v1/chat/completions request; ApiError 400 names the field."""
    fields = Fields(body)
    limit = fields.optional_integer("max_completion_tokens", at_least=1)
    if limit is None:
        limit = fields.optional_integer("max_tokens", at_least=1)
    alternatives = fields.integer("top_logprobs", 0, at_least=0, at_most=MOST_LOGPROBS)
    wanted = fields.flag("logprobs")
    if alternatives and not wanted:
        raise bad_request("top_logprobs needs logprobs: true", "top_logprobs")
    read = conversation(body)
    asked = _asked(fields, (read,), limit, alternatives if wanted else None)
    one = fields.has("parallel_tool_calls") and not fields.flag("parallel_tool_calls")
    names = tool_names(read.tools)
    forced = _forced(fields, names)
    check_forced(fields, forced, names, asked.schema is not None)
    return replace(asked, tool_names=names, forced=forced, most_calls=1 if one else None)


def _forced(fields: Fields, names: frozenset[str]) -> frozenset[str]:
    """The tools of which `tool_choice` wants one called."""
    choice = fields.get("tool_choice")
    if choice in (None, "none", "auto"):
        return frozenset()
    if choice == "required":
        return names
    if not isinstance(choice, dict):
        raise bad_request("tool_choice must be none, auto, required, or name a function", "tool_choice")
    return frozenset({fields.object("tool_choice").object("function").text("name")})


def check_forced(fields: Fields, forced: frozenset[str], names: frozenset[str], formatted: bool) -> None:
    """Refuse a call that is asked for and cannot be made; `formatted`: the answer has a format of its own."""
    choice = fields.get("tool_choice")
    if choice in (None, "none", "auto") or (
        isinstance(choice, dict) and choice.get("type") in ("none", "auto")
    ):
        return
    if not names or not forced <= names:
        unknown = ", ".join(sorted(forced - names))
        raise bad_request(
            f"tool_choice wants a call of a tool that tools does not hold: {unknown or 'any'}", "tool_choice"
        )
    if formatted:
        raise bad_request(
            "tool_choice: an answer that must be a call can have no other format", "tool_choice"
        )
    check_constrained(fields)


def tool_names(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The names of tools in OpenAI's shape."""
    return frozenset(str(tool["function"]["name"]) for tool in tools)


def completion_request(body: Mapping[str, Any]) -> Asked:
    """A /v1/completions request; ApiError 400 names the field."""
    fields = Fields(body)
    limit = fields.integer("max_tokens", DEFAULT_COMPLETION_TOKENS, at_least=1)
    alternatives = fields.optional_integer("logprobs", at_least=0, at_most=MOST_LOGPROBS)
    if fields.flag("echo") and alternatives is not None:
        raise bad_request(
            "echo with logprobs is not supported: the prompt's own are not computed", "logprobs"
        )
    return _asked(fields, _prompts(fields), limit, alternatives)


def conversation(body: Mapping[str, Any]) -> Conversation:
    """The messages and tools of a body, as a chat template reads them."""
    fields = Fields(body)
    given = fields.objects("messages")
    if not given:
        raise bad_request("messages must be a list of at least one message", "messages")
    given_tools = tuple(_tool(tool) for tool in fields.objects("tools"))
    tools = () if fields.get("tool_choice") == "none" else given_tools
    return Conversation(
        messages=tuple(_message(message) for message in given),
        tools=tools,
        add_generation_prompt=fields.flag("add_generation_prompt", True),
        continue_final=fields.flag("continue_final_message"),
        variables=dict(fields.object("chat_template_kwargs").document),
    )


def sampling(fields: Fields, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
    """The parameters that choose tokens; ApiError 400 for one out of its range."""
    stop_tokens = fields.integers("stop_token_ids")
    fields.bound("stop_token_ids", len(stop_tokens), MOST_STOP_TOKENS)
    params = SamplingParams(
        temperature=fields.number("temperature", 1.0),
        top_p=fields.number("top_p", 1.0),
        top_k=max(0, fields.integer("top_k", 0, at_least=-1)),
        min_p=fields.number("min_p", 0.0),
        max_tokens=2**31 - 1 if max_tokens is None else max_tokens,
        min_tokens=fields.integer("min_tokens", 0, at_least=0),
        stop_token_ids=frozenset(stop_tokens),
        ignore_eos=fields.flag("ignore_eos"),
        presence_penalty=fields.number("presence_penalty", 0.0),
        frequency_penalty=fields.number("frequency_penalty", 0.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0),
        logit_bias=_bias(fields),
        logprobs=logprobs,
    )
    problem = params_problem(params)
    if problem is not None:
        name, wrong = problem
        raise bad_request(f"{fields.path(name)} {wrong}", fields.path(name))
    return params


def _asked(
    fields: Fields,
    prompts: tuple[Conversation | RawPrompt, ...],
    max_tokens: int | None,
    logprobs: int | None,
) -> Asked:
    fields.refuse(NOT_SUPPORTED, "is not supported by this worker")
    schema = _schema(fields)
    stream = fields.flag("stream")
    if fields.has("stream_options") and not stream:
        raise bad_request("stream_options can only be given with stream: true", "stream_options")
    options = fields.object("stream_options")
    return Asked(
        model=fields.text("model") if fields.has("model") else None,
        prompts=prompts,
        params=sampling(fields, max_tokens, logprobs),
        max_tokens=max_tokens,
        seed=fields.optional_integer("seed", at_least=-(2**63), at_most=2**63 - 1),
        n=fields.integer("n", 1, at_least=1, at_most=MOST_CHOICES),
        stop=fields.texts("stop", most=MOST_STOPS, longest=LONGEST_STOP),
        include_stop=fields.flag("include_stop_str_in_output"),
        stream=stream,
        include_usage=options.flag("include_usage"),
        continuous_usage=options.flag("continuous_usage_stats"),
        echo=fields.flag("echo"),
        schema=schema,
        schema_field="response_format",
        tenant=fields.text("cache_salt", ""),
        priority=fields.integer("priority", 0, at_least=-(2**31)),
    )


def _tool(tool: Fields) -> Mapping[str, Any]:
    """A tool as it stands, once it has what every template and every call needs."""
    kind = tool.text("type", "function")
    if kind != "function":
        raise bad_request(f"{tool.path('type')} must be function, got {kind!r}", tool.path("type"))
    function = tool.object("function")
    if not function.text("name"):
        raise bad_request(f"{function.path('name')} must not be empty", function.path("name"))
    function.object("parameters")
    return dict(tool.document)


def _schema(fields: Fields) -> Mapping[str, Any] | None:
    """What `response_format` keeps the answer to."""
    form = fields.object("response_format")
    kind = form.text("type", "text")
    if kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        where = form.path("type")
        raise bad_request(f"{where} must be text, json_object or json_schema, got {kind!r}", where)
    check_constrained(fields)
    if kind == "json_object":
        return {"type": "object"}
    named = form.object("json_schema")
    if not named.has("schema"):
        raise bad_request(f"{named.path('schema')} is required", named.path("schema"))
    return named.object("schema").document


def check_constrained(fields: Fields) -> None:
    """Refuse what would keep a constrained answer from ending where it must."""
    for name in ("min_tokens", "ignore_eos"):
        if fields.get(name):
            raise bad_request(f"{fields.path(name)} cannot be combined with a format of the answer", name)


def _message(message: Fields) -> Mapping[str, Any]:
    role = message.text("role")
    if role not in ROLES:
        known = ", ".join(sorted(ROLES))
        raise bad_request(
            f"{message.path('role')} must be one of {known}, got {role!r}", message.path("role")
        )
    # Templates know no developer; it is the newer name of the system role.
    read: dict[str, Any] = {
        "role": "system" if role == "developer" else role,
        "content": _content(message, role),
    }
    for name in ("name", "tool_call_id"):
        if message.has(name):
            read[name] = message.text(name)
    calls = message.objects("tool_calls")
    if calls:
        read["tool_calls"] = [_tool_call(call) for call in calls]
    return read


def _content(message: Fields, role: str) -> str:
    where = message.path("content")
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":
        return ""
    if not isinstance(content, list):
        raise bad_request(f"{where} must be a string or a list of parts", where)
    texts = []
    for part in message.objects("content"):
        if part.get("type") != "text":
            raise bad_request(
                f"{part.path('type')} must be text: the model reads nothing else", part.path("type")
            )
        texts.append(part.text("text"))
    return "\n".join(texts)


def _tool_call(call: Fields) -> dict[str, Any]:
    """A call of an earlier turn; templates expect the arguments as an object, clients send them as JSON text."""
    function = call.object("function")
    arguments: Any = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments) if arguments else {}
        except orjson.JSONDecodeError as error:
            where = function.path("arguments")
            raise bad_request(f"{where} is not valid JSON: {error}", where) from None
    named = {"name": function.text("name"), "arguments": arguments or {}}
    return {"id": call.text("id", ""), "type": "function", "function": named}


def _prompts(fields: Fields) -> tuple[RawPrompt, ...]:
    given = fields.get("prompt")
    special = fields.flag("add_special_tokens", True)
    entries = [given] if isinstance(given, str) else given
    if isinstance(given, list) and given and all(is_token(entry) for entry in given):
        entries = [given]
    if not isinstance(entries, list) or not entries:
        raise bad_request("prompt must be a non-empty string, a list of them, or token ids", "prompt")
    if len(entries) > MOST_PROMPTS:
        raise bad_request(
            f"prompt: at most {MOST_PROMPTS} prompts in one request, got {len(entries)}", "prompt"
        )
    return tuple(_prompt(entry, special) for entry in entries)


def _prompt(entry: object, special: bool) -> RawPrompt:
    if isinstance(entry, str) and entry:
        return RawPrompt(entry, add_special_tokens=special)
    if isinstance(entry, list) and entry and all(is_token(token) for token in entry):
        return RawPrompt(None, tuple(entry))
    raise bad_request("prompt: each entry must be a non-empty string or a list of token ids", "prompt")


def _bias(fields: Fields) -> dict[int, float]:
    given = fields.object("logit_bias")
    fields.bound("logit_bias", len(given.document), MOST_BIASES)
    bias = {}
    for name in given.document:
        if not name.isascii() or not name.isdigit() or len(name) > 10:
            raise bad_request(f"{given.where}: keys must be token ids, got {name[:20]!r}", given.where)
        bias[int(name)] = given.number(name, 0.0)
    return bias
