"""Renders a model's chat template in a sandbox: no attribute tricks, bounded work, bounded output.

A template comes with the model, that is, from a stranger. Jinja's sandbox keeps it from Python's internals; what it does not
bound is time and memory, so repetition and powers are limited and a deadline is checked at every line of the template.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Final, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tierwright_worker.errors import CorruptModelError

DEADLINE_SECONDS: Final = 2.0
MAX_OUTPUT: Final = 16 << 20  # characters
_TEMPLATE_FILE: Final = "<template>"


class ChatTemplateError(ValueError):
    """The template refused the messages, failed on them, or took too long; a fault of the request or of the model."""


class _Generator(CodeGenerator):
    """Jinja's compiler, but for the joining of texts."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802  # Jinja's name
        self.write("environment.joined((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with repetition bounded."""

    intercepted_binops = frozenset(["*", "**", "+"])
    code_generator_class = _Generator

    @staticmethod
    def concat(pieces: Iterable[str]) -> str:
        """What a block or a macro wrote; a few rounds of doubling would fill all memory."""
        found, length = [], 0
        for piece in pieces:
            length += len(piece)
            if length > MAX_OUTPUT:
                raise SecurityError("a chat template may not build so long a text")
            found.append(piece)
        return "".join(found)

    def joined(self, parts: Iterable[Any]) -> str:
        """What `~` makes of values."""
        return self.concat(str(part) for part in parts)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise SecurityError("powers are not allowed in a chat template")
        sized = [value for value in (left, right) if isinstance(value, str | list | tuple)]
        times = next((value for value in (left, right) if isinstance(value, int)), 1)
        length = sum(len(value) for value in sized) * (max(times, 1) if operator == "*" else 1)
        if sized and length > MAX_OUTPUT:
            raise SecurityError("a chat template may not build so long a text")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """One compiled template."""

    def __init__(self, source: str, named_tokens: Mapping[str, str]) -> None:
        """Compile it.

        Raises:
            CorruptModelError: it is no valid template.
        """
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now(tz=UTC).strftime(form)
        try:
            self._template = environment.from_string(source)
        except (TemplateSyntaxError, RecursionError) as error:
            raise CorruptModelError(f"the model's chat template is not valid: {error}") from error
        self._named_tokens = dict(named_tokens)
        self.source = source

    @property
    def knows_tools(self) -> bool:
        """Whether tools reach the prompt at all."""
        return "tools" in self.source

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> str:
        """The prompt's text; to be encoded without adding special tokens, which it holds already.

        Raises:
            ChatTemplateError: see there.
        """
        values: dict[str, Any] = {
            **self._named_tokens,
            **(variables or {}),
            "messages": [dict(message) for message in messages],
            "tools": [dict(tool) for tool in tools] if tools else None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        with _Deadline(deadline_seconds):
            try:
                return _Environment.concat(self._template.generate(values))
            except _TooSlowError:
                raise ChatTemplateError(
                    f"the model's chat template did not end within {deadline_seconds:g} s"
                ) from None
            except (TemplateError, RecursionError, MemoryError) as error:
                raise ChatTemplateError(f"the model's chat template refused the messages: {error}") from error
            except (TypeError, ValueError, KeyError, ArithmeticError, AttributeError) as error:
                raise ChatTemplateError(
                    f"the model's chat template failed on the messages: {error}"
                ) from error


class _TooSlowError(BaseException):
    """Raised inside the template; no `except Exception` within Jinja may swallow it."""


class _Deadline:
    """Ends the template's own code at its next line once the time is over; this thread alone is traced.

    Of the processor's time of this thread: on a busy machine a long conversation may wait, and that is not its fault.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.thread_time() + seconds
        self._before: Callable[..., Any] | None = None

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename == _TEMPLATE_FILE else None

    def _line(self, _frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any]:
        if time.thread_time() > self._end:
            raise _TooSlowError
        return self._line


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
    """JSON as Hugging Face's templates expect it: not escaped for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
