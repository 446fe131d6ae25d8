"""Reads bodies of Anthropic's Messages API, and turns them into the conversation that a chat template knows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tierwright_worker.engine.policies.breakpoints import LONG_SECONDS, MOST_BREAKPOINTS, SHORT_SECONDS
from tierwright_worker.server.asked import Asked, Conversation, Mark
from tierwright_worker.server.errors import bad_request
from tierwright_worker.server.fields import Fields
from tierwright_worker.server.openai_requests import (
    LONGEST_STOP,
    MOST_STOPS,
    check_constrained,
    check_forced,
    sampling,
    tool_names,
)

LIFETIMES = {"5m": SHORT_SECONDS, "1h": LONG_SECONDS}
TOOLS = -1


def messages_request(body: Mapping[str, Any]) -> Asked:
    """A /v1/messages request; ApiError 400 names the field."""
    fields = Fields(body)
    limit = fields.optional_integer("max_tokens", at_least=1)
    if limit is None:
        raise bad_request("max_tokens is required", "max_tokens")
    metadata = fields.object("metadata")
    read = conversation(body)
    one = fields.object("tool_choice").flag("disable_parallel_tool_use")
    names, schema = tool_names(read.tools), _schema(fields)
    forced = _forced(fields, names)
    check_forced(fields, forced, names, schema is not None)
    return Asked(
        model=fields.text("model"),
        prompts=(read,),
        params=sampling(fields, limit, None),
        max_tokens=limit,
        stop=fields.texts("stop_sequences", most=MOST_STOPS, longest=LONGEST_STOP),
        stream=fields.flag("stream"),
        tenant=fields.text("cache_salt", "") or metadata.text("user_id", ""),
        schema=schema,
        schema_field="output_config.format.schema",
        tool_names=names,
        forced=forced,
        most_calls=1 if one else None,
        cut_to_context=True,
        automatic_cache=False,
    )


def _forced(fields: Fields, names: frozenset[str]) -> frozenset[str]:
    """The tools of which `tool_choice` wants one called."""
    choice = fields.object("tool_choice")
    kind = choice.text("type", "auto")
    if kind in ("auto", "none"):
        return frozenset()
    if kind == "any":
        return names
    if kind == "tool":
        return frozenset({choice.text("name")})
    where = choice.path("type")
    raise bad_request(f"{where} must be auto, none, any or tool, got {kind!r}", where)


def _schema(fields: Fields) -> Mapping[str, Any] | None:
    """What `output_config` keeps the answer to."""
    config = fields.object("output_config")
    config.refuse(("effort",), "is not supported by this worker")
    if not config.has("format"):
        return None
    form = config.object("format")
    if form.text("type") != "json_schema":
        raise bad_request(f"{form.path('type')} must be json_schema", form.path("type"))
    if not form.has("schema"):
        raise bad_request(f"{form.path('schema')} is required", form.path("schema"))
    check_constrained(fields)
    return form.object("schema").document


def conversation(body: Mapping[str, Any]) -> Conversation:
    """System prompt, messages, tools and cache breakpoints of a body."""
    fields = Fields(body)
    given = fields.objects("messages")
    if not given:
        raise bad_request("messages: at least one message is required", "messages")
    built = _Builder()
    tools = tuple(_tool(tool, built) for tool in fields.objects("tools"))
    choice = fields.object("tool_choice").text("type", "auto")
    if fields.has("system"):
        built.begin("system")
        _blocks(fields, "system", built)
    for message in given:
        role = message.text("role")
        if role not in ("user", "assistant", "system"):
            where = message.path("role")
            raise bad_request(f"{where} must be user, assistant or system, got {role!r}", where)
        built.begin(role)
        _blocks(message, "content", built)
    marks = list(built.marks)
    automatic = _lifetime(fields)
    if automatic is not None:
        last = len(built.messages) - 1
        marks.append(Mark(last, len(built.parts[last]) - 1, automatic))
    if len(marks) > MOST_BREAKPOINTS:
        raise bad_request(
            f"at most {MOST_BREAKPOINTS} blocks with cache_control are allowed, got {len(marks)}"
        )
    return Conversation(
        messages=tuple(built.messages),
        tools=() if choice == "none" else tools,
        # A conversation that ends with the assistant asks to go on with that very text.
        continue_final=built.messages[-1]["role"] == "assistant",
        parts=tuple(tuple(parts) for parts in built.parts),
        marks=tuple(marks),
    )


@dataclass
class _Builder:
    """Messages while they are read; a tool's result becomes a message of its own, as templates want it."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    parts: list[list[str]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def begin(self, role: str, **more: Any) -> None:
        self.messages.append({"role": role, "content": "", **more})
        self.parts.append([])

    def text(self, text: str) -> None:
        self.parts[-1].append(text)
        self.messages[-1]["content"] = "\n".join(self.parts[-1])

    def mark(self, seconds: float | None) -> None:
        if seconds is not None:
            self.marks.append(Mark(len(self.messages) - 1, len(self.parts[-1]) - 1, seconds))


def _blocks(holder: Fields, name: str, built: _Builder) -> None:
    """Text, or a list of blocks, of a message or the system prompt."""
    if isinstance(holder.get(name), str):
        built.text(holder.text(name))
        return
    blocks = holder.objects(name)
    if not blocks and not isinstance(holder.get(name), list):
        raise bad_request(f"{holder.path(name)} must be a string or a list of blocks", holder.path(name))
    role = str(built.messages[-1]["role"])
    for block in blocks:
        kind = block.text("type")
        if kind == "text":
            if not built.messages or built.messages[-1]["role"] != role:
                built.begin(role)
            built.text(block.text("text"))
        elif kind == "tool_use" and role == "assistant":
            call = {"name": block.text("name"), "arguments": dict(block.object("input").document)}
            calls = built.messages[-1].setdefault("tool_calls", [])
            calls.append({"id": block.text("id"), "type": "function", "function": call})
        elif kind == "tool_result" and role == "user":
            # The empty message that this one began with is not wanted when it holds results alone.
            if not built.parts[-1] and built.messages[-1]["role"] == role:
                built.messages.pop()
                built.parts.pop()
            built.begin("tool", tool_call_id=block.text("tool_use_id"))
            built.text(_result(block))
        elif kind in ("thinking", "redacted_thinking") and role == "assistant":
            continue
        else:
            where = block.path("type")
            raise bad_request(f"{where}: {kind!r} is not supported in a message of role {role}", where)
        built.mark(_lifetime(block))


def _result(block: Fields) -> str:
    content = block.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in block.objects("content"):
        if part.get("type") != "text":
            raise bad_request(
                f"{part.path('type')} must be text: the model reads nothing else", part.path("type")
            )
        texts.append(part.text("text"))
    return "\n".join(texts)


def _tool(tool: Fields, built: _Builder) -> Mapping[str, Any]:
    """A tool in the shape that chat templates know, which is OpenAI's."""
    seconds = _lifetime(tool)
    if seconds is not None:
        built.marks.append(Mark(TOOLS, 0, seconds))
    if not tool.text("name"):
        raise bad_request(f"{tool.path('name')} must not be empty", tool.path("name"))
    function = {
        "name": tool.text("name"),
        "description": tool.text("description", ""),
        "parameters": dict(tool.object("input_schema").document),
    }
    return {"type": "function", "function": function}


def _lifetime(fields: Fields) -> float | None:
    """Seconds of a `cache_control`, None without one."""
    if not fields.has("cache_control"):
        return None
    control = fields.object("cache_control")
    if control.text("type") != "ephemeral":
        raise bad_request(f"{control.path('type')} must be ephemeral", control.path("type"))
    ttl = control.text("ttl", "5m")
    if ttl not in LIFETIMES:
        raise bad_request(f"{control.path('ttl')} must be 5m or 1h, got {ttl!r}", control.path("ttl"))
    return LIFETIMES[ttl]
