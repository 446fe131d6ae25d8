"""The settings say who is read, the pods or a Prometheus server; what cannot be used is refused before anything runs."""

from pathlib import Path

import pytest

from tierwright.control.parts import page_source
from tierwright.observe.prometheus_source import PrometheusSource
from tierwright.observe.scrape import Scraper
from tierwright.settings import Settings, SettingsError, resolve


async def test_pods_are_read_unless_a_server_is_named() -> None:
    make, lag = page_source(Settings())
    async with make() as source:
        assert isinstance(source, Scraper)
    assert lag == 3.0


async def test_a_server_is_read_in_place_of_pods_and_its_samples_may_be_a_tick_older() -> None:
    make, lag = page_source(Settings(prometheus_url="https://prometheus.monitoring.svc:9090/x"))
    async with make() as source:
        assert isinstance(source, PrometheusSource)
    assert lag == 13.0


@pytest.mark.parametrize("name", ["scrape_ca_file", "prometheus_ca_file"])
@pytest.mark.parametrize("text", [None, "no certificate"])
def test_an_authority_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str | None) -> None:
    file = tmp_path / "ca.crt"
    if text is not None:
        file.write_text(text)
    values = {name: str(file), "prometheus_url": "https://p:9090" if name.startswith("prometheus") else ""}
    with pytest.raises(SettingsError, match=f"{name}=.*ca.crt"):
        page_source(Settings(**values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["prometheus:9090", "ftp://p:9090", "http://", "http://p:9090/?x=1", "http://user:secret@p:9090"]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is no address"):
        resolve({"prometheus_url": text}, {})


@pytest.mark.parametrize(
    "text", ["http://prometheus:9090", "https://p.example/a/b", "http://[fd00::1]:9090/"]
)
def test_an_address_is_taken_from_the_environment(text: str) -> None:
    assert resolve({}, {"TIERWRIGHT_PROMETHEUS_URL": text}).prometheus_url == text
