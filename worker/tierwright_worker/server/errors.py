"""Says what is wrong with a request, in the shape of the API that was called."""

from dataclasses import dataclass
from typing import Any

_OPENAI_KINDS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    413: "RequestEntityTooLarge",
}
_OPENAI_KINDS |= {500: "InternalServerError", 503: "ServiceUnavailableError"}
_ANTHROPIC_KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
_ANTHROPIC_KINDS |= {413: "request_too_large", 500: "api_error", 529: "overloaded_error"}


@dataclass
class ApiError(Exception):
    """An HTTP error; `param` names the field at fault, `retry_after` is in seconds."""

    status: int
    message: str
    param: str | None = None
    retry_after: int | None = None

    def __str__(self) -> str:
        return self.message

    def openai_body(self) -> dict[str, Any]:
        """The JSON document of OpenAI's API, as vLLM fills it."""
        kind = _OPENAI_KINDS[self.status]
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.status}}

    def anthropic_body(self, request_id: str) -> dict[str, Any]:
        """The JSON document of Anthropic's API."""
        error = {"type": _ANTHROPIC_KINDS[self.anthropic_status], "message": self.message}
        return {"type": "error", "error": error, "request_id": request_id}

    @property
    def anthropic_status(self) -> int:
        """Anthropic's API says 529 where others say 503."""
        return 529 if self.status == 503 else self.status


def bad_request(message: str, param: str | None = None) -> ApiError:
    """The 400 of a request that can never succeed."""
    return ApiError(400, message, param)
