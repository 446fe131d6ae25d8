"""Reads a repository of the Hugging Face hub, through huggingface_hub: files of one commit, each with its digest."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import httpx2
from huggingface_hub import HfApi, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from tierwright_worker.errors import (
    ModelNotFoundError,
    SettingsError,
    SourceAccessError,
    SourceUnreachableError,
    WorkerError,
)
from tierwright_worker.sources.remote import (
    GIT_BLOB,
    CannotResumeError,
    Digest,
    Opened,
    RemoteFile,
    TransientError,
)
from tierwright_worker.sources.retry import retry_after
from tierwright_worker.sources.source import HubSource

_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_LATER = (408, 425, 429, 500, 502, 503, 504)


class HubRemote:
    """One repository at one revision; the endpoint and the token come from HF_ENDPOINT and HF_TOKEN."""

    def __init__(self, source: HubSource) -> None:
        """Nothing is asked yet."""
        self._source = source
        self._endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        self._token = os.environ.get("HF_TOKEN") or None
        self._commit = source.revision

    def files(self) -> tuple[RemoteFile, ...]:
        """All files of the commit that the revision names now; they are read from that commit from here on."""
        try:
            info = HfApi(self._endpoint, token=self._token or False).model_info(
                self._source.repository,
                revision=self._source.revision,
                files_metadata=True,
                timeout=30.0,
            )
        except Exception as error:
            self._explain(error)
        self._commit = info.sha or self._source.revision
        found = []
        for file in info.siblings or ():
            if file.size is None:
                raise TransientError(f"the hub gave no size for {file.rfilename}")
            digest = Digest("sha256", file.lfs.sha256) if file.lfs is not None else None
            if digest is None and file.blob_id is not None:
                digest = Digest(GIT_BLOB, file.blob_id)
            identity = digest.value if digest is not None else self._commit
            found.append(RemoteFile(file.rfilename, file.size, identity, digest))
        return tuple(found)

    @contextmanager
    def open(self, file: RemoteFile, start: int) -> Iterator[Opened]:
        """The file's bytes from `start` on. What they are is fixed by the commit; the digest proves it at the end."""
        url = hf_hub_url(self._source.repository, file.path, revision=self._commit, endpoint=self._endpoint)
        # Ranges count the bytes as stored, so nobody on the way may compress them.
        headers = {"accept-encoding": "identity", "user-agent": "tierwright-worker"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if start:
            headers["range"] = f"bytes={start}-"
        try:
            with get_session().stream("GET", url, headers=headers, timeout=_TIMEOUT) as answer:
                if answer.status_code == 416:
                    raise CannotResumeError
                if answer.status_code >= 400:
                    answer.read()
                hf_raise_for_status(answer)
                resumed = answer.status_code == 206
                yield Opened(start if resumed else 0, answer.iter_bytes())
        except (httpx2.HTTPError, HfHubHTTPError, OfflineModeIsEnabled) as error:
            self._explain(error)

    def _explain(self, error: Exception) -> NoReturn:
        """In our own words: what to do, or that it may work later."""
        where = str(self._source)
        if isinstance(error, WorkerError | TransientError):
            raise error
        if isinstance(error, OfflineModeIsEnabled):
            raise SettingsError(f"{where}: HF_HUB_OFFLINE is set, so the hub is not asked") from error
        if isinstance(error, HfHubHTTPError) and error.response is not None:
            self._explain_status(where, error, error.response)
        if isinstance(error, httpx2.TransportError | httpx2.HTTPError | OSError):
            raise TransientError(f"{type(error).__name__}: {error}") from error
        raise SourceUnreachableError(
            f"{where}: {self._endpoint} gave an answer that no hub gives: {error}"
        ) from error

    def _explain_status(self, where: str, error: HfHubHTTPError, answer: httpx2.Response) -> NoReturn:
        status = answer.status_code
        token = "the token in HF_TOKEN" if self._token else "no token (HF_TOKEN is not set)"
        if isinstance(error, GatedRepoError):
            raise SourceAccessError(
                f"{where} is gated: accept its licence on the model's page, and give a token of that account as HF_TOKEN; "
                f"asked with {token}"
            ) from error
        if isinstance(error, RevisionNotFoundError):
            raise ModelNotFoundError(
                f"{where}: the repository has no revision {self._source.revision!r}; name a branch, a tag or a whole commit"
            ) from error
        if isinstance(error, DisabledRepoError):
            raise ModelNotFoundError(f"{where}: the hub has disabled this repository") from error
        if status in (401, 403) and not (status == 401 and isinstance(error, RepositoryNotFoundError)):
            raise SourceAccessError(
                f"{where}: access refused ({status}) with {token}; give a token as HF_TOKEN that may read it"
            ) from error
        if status == 404 or isinstance(error, RepositoryNotFoundError):
            raise ModelNotFoundError(
                f"{where} is not there, or is private; asked {self._endpoint} with {token}"
            ) from error
        if status in _LATER:
            asked = retry_after(answer.headers.get("retry-after"), time.time())
            raise TransientError(f"the hub answered {status}", asked) from error
        raise SourceUnreachableError(f"{where}: the hub answered {status}: {error}") from error
