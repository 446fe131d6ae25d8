"""Everything of dev.cluster lies below one folder, and a cluster's name cannot lead out of it."""

from pathlib import Path

import pytest

from dev.cluster import given, paths


def test_the_cache_is_where_the_user_says() -> None:
    assert paths.cache_dir({"TIERWRIGHT_CACHE": "/data/cache", "XDG_CACHE_HOME": "/x"}) == Path("/data/cache")
    assert paths.cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/tierwright")
    assert paths.cache_dir({}) == Path.home() / ".cache" / "tierwright"


def test_a_relative_cache_is_made_absolute_and_a_relative_xdg_folder_is_ignored() -> None:
    assert paths.cache_dir({"TIERWRIGHT_CACHE": "here"}) == Path.cwd() / "here"
    assert paths.cache_dir({"XDG_CACHE_HOME": "x"}) == Path.home() / ".cache" / "tierwright"


@pytest.mark.parametrize("name", ["dev", "a", "test-12345", "a" * 20])
def test_ordinary_names_are_taken(name: str) -> None:
    assert paths.check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "A", "-a", "a-", "a" * 21, "a b", "a\n", ".locks"]
)
def test_names_that_would_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cluster name"):
        paths.check_name(name)


def test_locks_lie_outside_of_any_run_folder() -> None:
    assert not paths.lock_file("dev").is_relative_to(paths.run_dir("dev"))


def test_a_kubeconfig_of_our_own_clusters_is_not_a_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIERWRIGHT_CACHE", str(tmp_path))
    own = paths.run_dir("dev") / "kubeconfigs" / "admin.yaml"
    assert not given.is_given({"KUBECONFIG": str(own)})
    assert not given.is_given({"KUBECONFIG": ""})
    assert not given.is_given({})
    assert given.is_given({"KUBECONFIG": "/home/someone/.kube/config"})
