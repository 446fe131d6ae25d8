"""Fetching from an S3 store: resumed only while the object is the same, checked by the best digest that there is."""

from pathlib import Path

import pytest

from tests.worker.sources.conftest import MODEL, Fetching, held, model_files
from tests.worker.sources.servers import Fault, Store, checksum
from tierwright_worker.errors import (
    CorruptModelError,
    ModelNotFoundError,
    SourceAccessError,
    SourceUnreachableError,
)
from tierwright_worker.sources.bucket import object_digest

SHARD = "model-00001-of-00002.safetensors"
KEY = f"llama/{SHARD}"
SOURCE = "s3://bucket/llama"


def test_a_prefix_is_fetched(s3_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()


def test_requests_are_signed_where_there_are_keys(
    s3_store: Store, fetching: Fetching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching(SOURCE, tmp_path / "public")
    assert {seen.headers.get("authorization") for seen in s3_store.seen} == {None}
    s3_store.seen.clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
    fetching(SOURCE, tmp_path / "signed")
    assert all("Credential=the-key/" in seen.headers["authorization"] for seen in s3_store.seen)
    assert held(tmp_path / "signed") == model_files()


def test_a_cut_download_goes_on_with_the_same_object(
    s3_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    s3_store.faults[KEY] = [Fault(), Fault(cut=100_000), Fault(status=503, headers={"retry_after": "0"})]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    asked = s3_store.requests(SHARD)
    assert [seen.headers.get("range") for seen in asked] == [None, "bytes=100000-", "bytes=100000-"]
    assert len({seen.headers["if-match"] for seen in asked}) == 1


def test_an_object_that_changes_meanwhile_ends_the_fetch(
    s3_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    class Changing(list[Fault]):
        """Swaps the object once it was cut."""

        def pop(self, index: int = -1) -> Fault:  # type: ignore[override]
            fault = super().pop(index)
            if fault.cut is not None:
                s3_store.files[KEY] = bytes(reversed(MODEL[SHARD]))
            return fault

    s3_store.faults[KEY] = Changing([Fault(), Fault(cut=100_000)])
    with pytest.raises(SourceUnreachableError, match="changed while it was fetched"):
        fetching(SOURCE, tmp_path)
    fetching(SOURCE, tmp_path)
    assert held(tmp_path)[SHARD] == bytes(reversed(MODEL[SHARD]))


@pytest.mark.parametrize("algorithm", ["sha256", "crc64nvme", "crc32"])
def test_the_stores_checksum_is_held_against_what_came(
    algorithm: str, s3_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    header = f"x_amz_checksum_{algorithm}"
    s3_store.checksums[KEY] = {
        header: checksum(algorithm, MODEL[SHARD]),
        "x_amz_checksum_type": "FULL_OBJECT",
    }
    fetching(SOURCE, tmp_path / "right")
    assert held(tmp_path / "right") == model_files()
    s3_store.checksums[KEY][header] = checksum(algorithm, b"something else")
    with pytest.raises(CorruptModelError, match=f"than its {algorithm} says"):
        fetching(SOURCE, tmp_path / "wrong")


def test_wrong_bytes_are_seen_by_the_etag(s3_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    s3_store.faults[KEY] = [Fault(), Fault(wrong=True), Fault(wrong=True)]
    with pytest.raises(CorruptModelError, match="than its md5 says"):
        fetching(SOURCE, tmp_path)


def test_digests_of_parts_are_no_digests_of_the_object() -> None:
    md5 = "d41d8cd98f00b204e9800998ecf8427e"
    assert object_digest({"ETag": f'"{md5}"'}) is not None
    assert object_digest({"ETag": f'"{md5}-3"'}) is None
    assert object_digest({"ETag": f'"{md5}"', "ServerSideEncryption": "aws:kms"}) is None
    assert object_digest({"ETag": f'"{md5}"', "SSECustomerAlgorithm": "AES256"}) is None
    parts = {
        "ETag": f'"{md5}-3"',
        "ChecksumSHA256": checksum("sha256", b"") + "-3",
        "ChecksumType": "COMPOSITE",
    }
    assert object_digest(parts) is None


@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        ("s3://bucket/nothing", ModelNotFoundError, "nothing in the bucket begins with 'nothing/'"),
        ("s3://other/llama", ModelNotFoundError, "is not there .NoSuchBucket."),
    ],
)
def test_what_is_not_there_is_said(
    source: str, kind: type[Exception], says: str, s3_store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=says):
        fetching(source, tmp_path)


def test_missing_rights_are_named(s3_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    s3_store.faults["list"] = [Fault(status=403, body=b"AccessDenied")]
    with pytest.raises(
        SourceAccessError, match="needs s3:ListBucket on bucket and s3:GetObject on bucket/llama/"
    ):
        fetching(SOURCE, tmp_path)


def test_a_busy_store_is_asked_again(s3_store: Store, fetching: Fetching, tmp_path: Path) -> None:
    s3_store.faults["list"] = [Fault(status=503, body=b"SlowDown"), Fault(status=500, body=b"InternalError")]
    fetching(SOURCE, tmp_path)
    assert held(tmp_path) == model_files()
    assert sum("next try in" in line for line in fetching.said) == 2
