"""Where a setting comes from, and what a bad one says."""

import pytest

from tierwright import settings
from tierwright.settings import Settings, SettingsError, resolve


def test_the_command_line_wins_over_the_environment_and_that_over_the_default() -> None:
    environment = {"TIERWRIGHT_RESYNC_SECONDS": "60", "TIERWRIGHT_LOG_FORMAT": "json"}
    resolved = resolve({"resync_seconds": "30", "log_format": None}, environment)
    assert resolved.resync_seconds == 30.0
    assert resolved.log_format == "json"
    assert resolved.http_port == Settings().http_port


def test_an_empty_variable_counts_as_not_set() -> None:
    assert resolve({}, {"TIERWRIGHT_HTTP_PORT": ""}) == Settings()


def test_lists_are_cleaned() -> None:
    assert resolve({"namespaces": " b, a,,b "}, {}).namespaces == ("a", "b")


def test_all_bad_settings_are_named_at_once_with_their_source() -> None:
    with pytest.raises(SettingsError) as caught:
        resolve(
            {"http_port": "70000"}, {"TIERWRIGHT_RESYNC_SECONDS": "often", "TIERWRIGHT_LOG_LEVEL": "loud"}
        )
    text = str(caught.value)
    assert "--http-port='70000': must be between 1 and 65535" in text
    assert "TIERWRIGHT_RESYNC_SECONDS='often'" in text
    assert "TIERWRIGHT_LOG_LEVEL='loud': must be one of DEBUG, INFO, WARNING, ERROR" in text


def test_what_service_links_put_into_a_pods_environment_is_no_setting() -> None:
    links = {"TIERWRIGHT_SERVICE_HOST": "10.0.0.1", "TIERWRIGHT_PORT": "tcp://10.0.0.1:80"}
    assert resolve({}, links) == Settings()


def test_every_setting_is_described_and_parses_its_own_default() -> None:
    described = settings.describe()
    for name, default in vars(Settings()).items():
        assert described[name]
        if default not in ("", ()):
            assert resolve({name: str(default)}, {}) == Settings()


def test_a_request_is_always_shorter_than_the_renew_deadline_of_the_lease() -> None:
    with pytest.raises(SettingsError, match="between 1 and 9"):
        resolve({"request_timeout_seconds": "10"}, {})


def test_what_is_no_number_or_no_namespace_is_told_with_what_fits() -> None:
    environment = {
        "TIERWRIGHT_RESYNC_SECONDS": "5s",
        "TIERWRIGHT_PARALLEL_RECONCILES": "many",
        "TIERWRIGHT_NAMESPACES": "serving,../kube-system",
        "TIERWRIGHT_WORKER_REPOSITORY": "registry.example.com/worker:0.1.0",
    }
    with pytest.raises(SettingsError) as caught:
        resolve({}, environment)
    words = str(caught.value)
    assert "TIERWRIGHT_RESYNC_SECONDS='5s': write a number of seconds without a unit, such as 30" in words
    assert "write a whole number" in words
    assert "'../kube-system' is no name of a namespace" in words
    assert "write it without tag and digest" in words


@pytest.mark.parametrize("text", ["worker", "localhost/a/worker", "registry.example.com:5000/a-b/c_d"])
def test_a_repository_may_name_its_registry_and_port(text: str) -> None:
    assert resolve({"worker_repository": text}, {}).worker_repository == text
