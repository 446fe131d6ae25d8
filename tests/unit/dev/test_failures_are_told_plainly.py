"""Commands show what went wrong as one message and not as a traceback, whichever part it comes from."""

import importlib
import pkgutil

import pytest

import dev.cluster
from dev.cluster.failures import FAILURES
from dev.cluster.images.buildah import BuildError
from dev.demo import __main__ as demo
from dev.demo import story

TOLD_BY_THEIR_CALLERS = {"NoFreeSubnetError"}


def test_every_failure_of_the_cluster_is_listed() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(dev.cluster.__path__, "dev.cluster.")
        if not found.name.endswith(".__main__")
    ]
    raised = {
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, RuntimeError) and each.__module__ == module.__name__
    }
    assert {each.__name__ for each in raised - set(FAILURES)} <= TOLD_BY_THEIR_CALLERS


def test_a_demo_whose_images_cannot_be_built_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BuildError("no space left on /var")

    monkeypatch.setattr(demo, "provide", list)
    monkeypatch.setattr(story, "_require_place", lambda: None)
    monkeypatch.setattr(story, "build_operator_image", fails)
    monkeypatch.setattr("sys.argv", ["demo"])
    assert demo.main() == 1
    assert "The demo stopped: no space left on /var" in capsys.readouterr().err
