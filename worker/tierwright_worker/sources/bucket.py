"""Reads a prefix of an S3 bucket, through botocore: any S3-compatible store, credentials as AWS's own tools find them."""

import base64
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ResponseStreamingError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)
from urllib3.exceptions import HTTPError as StreamError

from tierwright_worker.errors import (
    ModelNotFoundError,
    SettingsError,
    SourceAccessError,
    SourceUnreachableError,
)
from tierwright_worker.sources.remote import (
    CRC32,
    CRC32C,
    CRC64_NVME,
    CannotResumeError,
    Digest,
    Opened,
    RemoteFile,
    TransientError,
)
from tierwright_worker.sources.retry import retry_after
from tierwright_worker.sources.source import BucketSource

_BLOCK = 1 << 16  # what a cut loses at most
# The store's name of a checksum, ours; strongest first.
_CHECKSUMS = (
    ("ChecksumSHA256", "sha256"),
    ("ChecksumSHA1", "sha1"),
    ("ChecksumCRC64NVME", CRC64_NVME),
    ("ChecksumCRC32C", CRC32C),
    ("ChecksumCRC32", CRC32),
)
_NETWORK = (BotoConnectionError, HTTPClientError, IncompleteReadError, ResponseStreamingError, StreamError)
_LATER = (408, 425, 429, 500, 502, 503, 504)


class BucketRemote:
    """One prefix. AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL name a store other than AWS's."""

    def __init__(self, source: BucketSource) -> None:
        """Nothing is asked yet."""
        self._source = source
        self._prefix = f"{source.prefix}/" if source.prefix else ""
        self._made: Any = None
        self._lock = threading.Lock()

    def files(self) -> tuple[RemoteFile, ...]:
        """All objects below the prefix, with the best digest that the store has of each."""
        found = []
        try:
            pages = (
                self._client()
                .get_paginator("list_objects_v2")
                .paginate(Bucket=self._source.bucket, Prefix=self._prefix)
            )
            for page in pages:
                for item in page.get("Contents", ()):
                    path = item["Key"].removeprefix(self._prefix)
                    if path and not path.endswith("/"):
                        found.append(self._file(path))
        except (ClientError, BotoCoreError, StreamError) as error:
            self._explain(error)
        if not found:
            raise ModelNotFoundError(f"{self._source}: nothing in the bucket begins with {self._prefix!r}")
        return tuple(found)

    @contextmanager
    def open(self, file: RemoteFile, start: int) -> Iterator[Opened]:
        """The object's bytes from `start` on, as long as it is still the one that was listed."""
        wanted = {"Bucket": self._source.bucket, "Key": self._prefix + file.path, "IfMatch": file.identity}
        if start:
            wanted["Range"] = f"bytes={start}-"
        try:
            answer = self._client().get_object(**wanted)
            body = answer["Body"]
            try:
                resumed = answer["ResponseMetadata"]["HTTPStatusCode"] == 206
                yield Opened(start if resumed else 0, body.iter_chunks(_BLOCK))
            finally:
                body.close()
        except (ClientError, BotoCoreError, StreamError) as error:
            self._explain(error)

    def _file(self, path: str) -> RemoteFile:
        head = self._client().head_object(
            Bucket=self._source.bucket, Key=self._prefix + path, ChecksumMode="ENABLED"
        )
        return RemoteFile(path, int(head["ContentLength"]), head["ETag"], object_digest(head))

    def _client(self) -> Any:
        """One client for all threads; botocore's clients are safe for that, making one is not."""
        with self._lock:
            if self._made is None:
                session = botocore.session.Session()
                own = any(os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
                config = Config(
                    connect_timeout=10,
                    read_timeout=30,
                    retries={
                        "mode": "standard",
                        "total_max_attempts": 1,
                    },  # ours keep what came, and obey Retry-After
                    response_checksum_validation="when_required",  # parts of objects have none; we check the whole
                    # Stores other than AWS's seldom have a host name for each bucket.
                    s3={"addressing_style": "path" if own else "auto"},
                    signature_version=UNSIGNED if session.get_credentials() is None else None,
                    user_agent_extra="tierwright-worker",
                )
                region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
                self._made = session.create_client("s3", region_name=region, config=config)
            return self._made

    def _explain(self, error: Exception) -> NoReturn:
        """In our own words: what to do, or that it may work later."""
        where, bucket = str(self._source), self._source.bucket
        if isinstance(error, ClientError):
            self._explain_status(error)
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            raise SourceAccessError(f"{where}: the AWS credentials are not whole: {error}") from error
        if isinstance(error, ParamValidationError):
            raise SettingsError(f"{where}: {error}") from error
        if isinstance(error, _NETWORK):
            raise TransientError(f"{type(error).__name__}: {error}") from error
        raise SourceUnreachableError(f"{where}: bucket {bucket} cannot be read: {error}") from error

    def _explain_status(self, error: ClientError) -> NoReturn:
        where, bucket = str(self._source), self._source.bucket
        answer: dict[str, Any] = error.response.get("ResponseMetadata", {})
        status, code = int(answer.get("HTTPStatusCode", 0)), error.response.get("Error", {}).get("Code", "")
        if status == 416:
            raise CannotResumeError from error
        if status == 412:
            raise SourceUnreachableError(
                f"{where}: an object changed while it was fetched; try again once the upload is done"
            ) from error
        if status in (401, 403):
            raise SourceAccessError(
                f"{where}: access refused ({status} {code}); the pod's AWS identity needs s3:ListBucket on {bucket} "
                f"and s3:GetObject on {bucket}/{self._prefix}*"
            ) from error
        if status == 404:
            raise ModelNotFoundError(f"{where} is not there ({code})") from error
        if status in _LATER or code in ("SlowDown", "RequestTimeout", "InternalError"):
            headers = answer.get("HTTPHeaders", {})
            asked = retry_after(headers.get("retry-after"), time.time())
            raise TransientError(f"the store answered {status} {code}", asked) from error
        raise SourceUnreachableError(f"{where}: the store answered {status} {code}: {error}") from error


def object_digest(head: dict[str, Any]) -> Digest | None:
    """The strongest digest of the whole object in the answer to HeadObject; None where the store has none.

    Checksums of objects that came in parts are digests of the parts' digests (`COMPOSITE`, or a value with `-N`), and the
    ETag is an MD5 only of what came in one piece and is not encrypted with a key of the customer's (S3 User Guide,
    "Checking object integrity").
    """
    if head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
        for key, algorithm in _CHECKSUMS:
            value = head.get(key, "")
            if value and "-" not in value:
                return Digest(algorithm, base64.b64decode(value).hex())
    tag = head.get("ETag", "").strip('"').lower()
    encrypted = head.get("ServerSideEncryption", "AES256") != "AES256" or "SSECustomerAlgorithm" in head
    if len(tag) == 32 and not encrypted and all(letter in "0123456789abcdef" for letter in tag):
        return Digest("md5", tag)
    return None
