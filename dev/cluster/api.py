"""A JSON-over-HTTPS client for the API server: the few calls that dev.cluster itself makes, from a kubeconfig.

Plain dicts in and out, one kept-alive connection per client, standard library alone (a provisioner that runs beside
every cluster should not weigh 80 MiB). Not for the operator, which has its own client.
"""

import base64
import http.client
import json
import select
import ssl
import tempfile
import urllib.parse
from pathlib import Path
from typing import Any

import yaml

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server answered with an error: `status` is the HTTP status, `reason` the Status object's reason.

    `causes` lists what is wrong with each field, as (field path, message).
    """

    def __init__(
        self, status: int, reason: str, message: str, what: str, causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Keep the parts that callers decide by, and one sentence for people."""
        super().__init__(f"{what}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.causes = causes


class Api:
    """One connection to an API server; not for use from several threads at once."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext, token: str | None, timeout_s: float
    ) -> None:
        """Use `from_kubeconfig`."""
        self._host, self._port, self._context, self._token = host, port, context, token
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPSConnection | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path, timeout_s: float = 30.0) -> "Api":
        """Read the current context of a kubeconfig with client certificates or a token.

        Raises ValueError for a kubeconfig that signs in by another way (exec plugins, basic auth).
        """
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        tls = ssl.create_default_context(cadata=_material(cluster, "certificate-authority", path) or None)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        cert, key = _material(user, "client-certificate", path), _material(user, "client-key", path)
        if cert and key:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as pem:  # the ssl module reads files only
                pem.write(cert + "\n" + key)
                pem.flush()
                tls.load_cert_chain(pem.name)
        elif not user.get("token"):
            raise ValueError(f"{path}: user {context['user']!r} has neither a client certificate nor a token")
        url = urllib.parse.urlsplit(cluster["server"])
        if not url.hostname or url.scheme != "https":
            raise ValueError(f"{path}: server {cluster['server']!r} is not an https URL")
        return cls(url.hostname, url.port or 443, tls, user.get("token"), timeout_s)

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send one request and return the decoded answer ({} when it is not JSON).

        Raises ApiError for an answer of 400 and above, OSError when the server cannot be reached.
        """
        status, text = self._send(method, path, None if body is None else json.dumps(body), content_type)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {"message": text}
        if status >= 400:
            causes = tuple(
                (cause.get("field", ""), cause.get("message", ""))
                for cause in (answer.get("details") or {}).get("causes", [])
            )
            what = f"{method} {path}"
            raise ApiError(status, answer.get("reason", ""), answer.get("message", text), what, causes)
        return answer if isinstance(answer, dict) and "kind" in answer else {}

    def ready(self) -> bool:
        """Whether the API server says that it is ready; False also while it does not answer."""
        try:
            return self._send("GET", "/readyz", None, "")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def exists(self, path: str) -> bool:
        """Whether a GET of `path` finds an object."""
        try:
            self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def clone(self) -> "Api":
        """Another connection to the same server, for another thread."""
        return Api(self._host, self._port, self._context, self._token, self._timeout_s)

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def __del__(self) -> None:
        """A client that is dropped takes its connection along."""
        self.close()

    def _send(self, method: str, path: str, body: str | None, content_type: str) -> tuple[int, str]:
        headers = {"Accept": "application/json", "User-Agent": "tierwright-dev-cluster"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._connection and _has_ended(self._connection):
            self.close()
        reused = self._connection is not None
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout_s, context=self._context
            )
        sent = False
        try:
            self._connection.request(method, path, body, headers)
            sent = True
            answer = self._connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # The server may close an idle connection at the very moment of our request. A request that did not go out
            # whole did nothing; one that did may have been carried out, so that only a read is sent again.
            if reused and not isinstance(error, TimeoutError) and (not sent or method == "GET"):
                return self._send(method, path, body, content_type)
            if isinstance(error, http.client.HTTPException):
                raise ConnectionError(f"{method} {path}: {error!r}") from error
            raise


def _has_ended(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has ended an idle connection: there is something to read though nothing was asked."""
    if connection.sock is None:
        return True
    readable = select.poll()
    readable.register(connection.sock, select.POLLIN)
    return bool(readable.poll(0))


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _material(holder: dict[str, Any], key: str, kubeconfig: Path) -> str:
    if data := holder.get(f"{key}-data"):
        return base64.b64decode(data).decode()
    if file := holder.get(key):
        return str((kubeconfig.parent / file).read_text())
    return ""
