"""Speaks with the API server over HTTP: one identity, one TLS context, every request bounded in time.

The ``kubernetes`` package gives the credentials and the transport; its typed models are not used. Proxies and
certificate authorities come from the kubeconfig or the service account alone: variables such as HTTPS_PROXY,
SSL_CERT_FILE and REQUESTS_CA_BUNDLE, meant for other programs, do not turn requests to the cluster elsewhere.
"""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient, Configuration

from tierwright.kube.credential_files import CredentialFiles
from tierwright.kube.credentials import CredentialsError, read_credentials
from tierwright.kube.errors import ApiError, NetworkError, error_of
from tierwright.kube.resources import Object, ObjectRef, ResourceKind, kind_of, ref_of
from tierwright.kube.verbs import Objects, PatchType, Propagation
from tierwright.telemetry.metrics import Metrics

log = logging.getLogger(__name__)

APPLY_TYPE: Final = "application/apply-patch+yaml"
LIST_TIMEOUT_FACTOR: Final = 1.8
"""A page of a list may take longer than a single object, yet a server that hangs is not waited for."""
MAX_LIST_RESTARTS: Final = 3


@dataclass(frozen=True)
class Connection:
    """What another HTTP session needs to be the same user at the same server."""

    server: str
    headers: Mapping[str, str]
    ssl_context: ssl.SSLContext
    proxy: str | None


def _new_api(configuration: Configuration, user_agent: str) -> ApiClient:
    """The transport of these credentials. Raises CredentialsError."""
    try:
        api = ApiClient(configuration)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CredentialsError(f"a certificate or key of the kubeconfig cannot be used: {error}") from error
    api.user_agent = user_agent
    return api


class HttpKubeClient:
    """KubeClient over HTTP. Create it with ``await HttpKubeClient.connect(...)`` inside the event loop."""

    def __init__(
        self,
        api: ApiClient,
        files: CredentialFiles,
        *,
        kubeconfig: str,
        timeout: float,
        user_agent: str,
        metrics: Metrics | None,
    ) -> None:
        """Use ``connect`` instead."""
        self._api = api
        self._files = files
        self._retired: set[asyncio.Task[None]] = set()
        self._kubeconfig = kubeconfig
        self._timeout = timeout
        self._user_agent = user_agent
        self._metrics = metrics
        self._refreshing = asyncio.Lock()

    @classmethod
    async def connect(
        cls,
        kubeconfig: str = "",
        *,
        timeout: float = 5.0,  # noqa: ASYNC109 - a property of the client, not of this call
        user_agent: str = "tierwright",
        metrics: Metrics | None = None,
    ) -> "HttpKubeClient":
        """Load credentials and make a client; nothing is sent yet.

        ``timeout`` in seconds bounds each request. Raises CredentialsError.
        """
        configuration, files = await read_credentials(kubeconfig)
        return cls(
            _new_api(configuration, user_agent),
            files,
            kubeconfig=kubeconfig,
            timeout=timeout,
            user_agent=user_agent,
            metrics=metrics,
        )

    async def close(self) -> None:
        """Close all connections."""
        for each in self._retired:
            each.cancel()
        await asyncio.gather(*self._retired, return_exceptions=True)
        await self._api.close()  # type: ignore[no-untyped-call]

    async def connection(self, *, refresh: bool = False) -> Connection:
        """The identity for another session; ``refresh`` reads the credentials anew first.

        Raises NetworkError when the file with the token cannot be read at this moment.
        """
        if refresh or self._files.changed():
            await self._refresh(self._api)
        configuration = self._api.configuration
        try:
            settings = (await configuration.auth_settings()).get("BearerToken")
        except (kube_config.ConfigException, OSError, ValueError) as error:
            raise NetworkError(f"the token cannot be read: {error}") from error
        headers = {"User-Agent": self._user_agent}
        if settings and settings["value"]:
            headers["Authorization"] = settings["value"]
        return Connection(configuration.host, headers, self._api.rest_client.ssl_context, configuration.proxy)

    async def get(self, ref: ObjectRef) -> Object | None:
        """See KubeClient."""
        try:
            return await self._request("GET", "get", ref.kind, ref.kind.path(ref.namespace, ref.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        keep: Callable[[Object], Object] | None = None,
    ) -> Objects:
        """See KubeClient."""
        query = {"limit": str(limit)}
        if label_selector:
            query["labelSelector"] = label_selector
        if field_selector:
            query["fieldSelector"] = field_selector
        for attempt in range(1, MAX_LIST_RESTARTS + 1):
            try:
                return await self._list_pages(kind, namespace, query, keep)
            except ApiError as error:
                # The server forgot the snapshot between two pages: only a list from the start is consistent.
                if error.status != 410 or attempt == MAX_LIST_RESTARTS:
                    raise
        raise AssertionError("unreachable")

    async def _list_pages(
        self,
        kind: ResourceKind,
        namespace: str | None,
        query: Mapping[str, str],
        keep: Callable[[Object], Object] | None,
    ) -> Objects:
        items: Objects = []
        page_query = dict(query)
        while True:
            page = await self._request(
                "GET",
                "list",
                kind,
                kind.path(namespace),
                page_query,
                timeout=self._timeout * LIST_TIMEOUT_FACTOR,
            )
            for item in page.get("items") or ():
                item.setdefault("apiVersion", kind.api_version)
                item.setdefault("kind", kind.kind)
                items.append(keep(item) if keep else item)
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return items
            page_query["continue"] = more

    async def apply(
        self,
        manifest: Object,
        *,
        manager: str,
        kind: ResourceKind | None = None,
        force: bool = True,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Object:
        """See KubeClient."""
        ref = ref_of(manifest, kind or kind_of(manifest))
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        path = ref.kind.path(ref.namespace, ref.name, subresource)
        try:
            return await self._request("PATCH", "apply", ref.kind, path, query, manifest, APPLY_TYPE)
        except ApiError as error:
            if error.status == 422 and any(cause.field == "metadata.uid" for cause in error.causes):
                # The object was replaced by another of its name: a conflict, as it is when the object is gone.
                raise ApiError(
                    409, "Conflict", error.message, request=error.request, details=error.details
                ) from error
            raise

    async def patch(
        self,
        ref: ObjectRef,
        body: Object | Objects,
        *,
        content_type: PatchType = "application/merge-patch+json",
        manager: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """See KubeClient."""
        query = {"fieldManager": manager} if manager else {}
        path = ref.kind.path(ref.namespace, ref.name, subresource)
        return await self._request("PATCH", "patch", ref.kind, path, query, body, content_type)

    async def delete(
        self, ref: ObjectRef, *, uid: str | None = None, propagation: Propagation = "Background"
    ) -> bool:
        """See KubeClient."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._request(
                "DELETE", "delete", ref.kind, ref.kind.path(ref.namespace, ref.name), {}, options
            )
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def _request(
        self,
        method: str,
        verb: str,
        kind: ResourceKind,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | Objects | None = None,
        content_type: str = "application/json",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - one bound for the request and the body
    ) -> Object:
        url = f"{path}?{urlencode(query)}" if query else path
        started = time.monotonic()
        code = 0
        if self._files.changed():
            await self._refresh(self._api)
        api = self._api
        try:
            code, headers, raw = await self._send(method, url, body, content_type, timeout or self._timeout)
            if code == 401:
                # Nothing was done, and the token may just have been replaced: once more with fresh credentials.
                await self._refresh(api)
                code, headers, raw = await self._send(
                    method, url, body, content_type, timeout or self._timeout
                )
        finally:
            if self._metrics is not None:
                self._metrics.api_requests.labels(verb, kind.kind, str(code)).inc()
                self._metrics.api_seconds.labels(verb).observe(time.monotonic() - started)
        if code >= 400:
            raise error_of(code, headers, raw, f"{verb} {path}")
        for warning in headers.getall("Warning", []):
            log.debug("the API server warns about %s %s: %s", verb, path, warning)
        try:
            answer: Object = json.loads(raw)
        except ValueError as error:
            raise NetworkError(f"{verb} {path}: the answer is no JSON: {error}") from error
        return answer

    async def _send(
        self, method: str, url: str, body: Object | Objects | None, content_type: str, limit: float
    ) -> tuple[int, Any, bytes]:
        headers = {"Accept": "application/json", "Content-Type": content_type}
        api = self._api
        try:
            verb, address, headers, payload, _ = await api.param_serialize(
                method, url, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            async with asyncio.timeout(limit):
                response = await api.call_api(
                    verb,
                    address,
                    header_params=headers,
                    body=payload,
                    _request_timeout=aiohttp.ClientTimeout(total=limit),
                )
                raw: bytes = await response.read()  # type: ignore[no-untyped-call]
                return response.status, response.headers, raw
        except TimeoutError as error:
            raise NetworkError(f"{method} {url}: no answer within {limit:g} s") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, kube_config.ConfigException) as error:
            # The package reads a service account's token again and again, and may meet an empty file.
            raise NetworkError(f"{method} {url}: {type(error).__name__}: {error}") from error

    async def _refresh(self, used: ApiClient) -> None:
        """Reads the credentials anew, unless others than ``used`` are in use by now.

        A certificate, an authority or a server that changed needs connections of its own; a token alone does not.
        Credentials that cannot be read, such as half of a pair that is just being replaced, leave the former ones in use.
        """
        async with self._refreshing:
            if self._api is not used:
                return
            try:
                fresh, files = await read_credentials(self._kubeconfig)
                if files.stamps == self._files.stamps and fresh.host == used.configuration.host:
                    used.configuration.api_key = fresh.api_key
                    used.configuration.refresh_api_key_hook = fresh.refresh_api_key_hook
                    return
                api = _new_api(fresh, self._user_agent)
            except CredentialsError as error:
                log.warning("credentials could not be read again: %s", error)
                return
            self._api, self._files = api, files
            log.info("credentials were replaced and read again")
            closing = asyncio.create_task(self._close_later(used), name="close former connections")
            self._retired.add(closing)
            closing.add_done_callback(self._retired.discard)

    async def _close_later(self, former: ApiClient) -> None:
        """Closes connections once no request can be on its way over them any more."""
        try:
            await asyncio.sleep(self._timeout * LIST_TIMEOUT_FACTOR)
        finally:
            await former.close()  # type: ignore[no-untyped-call]
