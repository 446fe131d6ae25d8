"""A real Prometheus in place of the pods: the same figures, dated when they were taken, and a pod that is gone is told."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from dev.cluster.machine.ports import free_port
from tests.support.engine_process import Engine, running_engine
from tests.support.prometheus import Prometheus, running_prometheus
from tierwright.observe.metrics import MetricsPage
from tierwright.observe.page_delta import between
from tierwright.observe.prometheus_source import PrometheusSettings, PrometheusSource
from tierwright.observe.readings import Scraped, ScrapeFault, Target
from tierwright.observe.scrape import Scraper, ScrapeSettings

pytestmark = pytest.mark.integration

ANSWERS = 4
TOKENS = 6


@dataclass(frozen=True)
class Scene:
    folder: Path
    engines: tuple[Engine, Engine]
    prometheus: Prometheus

    @property
    def targets(self) -> list[Target]:
        return [target_of(f"pod-{place}", engine) for place, engine in enumerate(self.engines)]

    def source(self, matchers: str = "") -> PrometheusSource:
        return PrometheusSource(PrometheusSettings(self.prometheus.url, matchers=matchers))


def target_of(uid: str, engine: Engine) -> Target:
    return Target(uid, "127.0.0.1", engine.port)


def scrape(targets: list[str], job: str = "engines", **labels: str) -> dict[str, object]:
    return {"job_name": job, "static_configs": [{"targets": targets, "labels": labels}]}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("stand-in")
    with running_engine(folder) as first, running_engine(folder) as second:
        # Both jobs scrape the first: two monitors that select the same pod.
        scrapes = [
            scrape([first.address, second.address], namespace="serving", cluster="east"),
            scrape([first.address], job="again", cluster="east"),
        ]
        with running_prometheus(folder, scrapes) as prometheus:
            yield Scene(folder, (first, second), prometheus)


async def settled(scene: Scene, source: PrometheusSource, finished: float) -> dict[str, Scraped]:
    """The first reading in which all engines together have finished so many requests, within half a minute."""
    for _ in range(300):
        found = dict(await source.read(scene.targets))
        pages = [each.page for each in found.values()]
        if sum(page.finished or 0 for page in pages if page is not None) >= finished and all(pages):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"not all engines told in time: {found}")


def figures(page: MetricsPage | None) -> dict[str, object]:
    assert page is not None
    return {field.name: getattr(page, field.name) for field in fields(MetricsPage)}


async def test_the_figures_are_those_of_the_pods_themselves(scene: Scene) -> None:
    async with Scraper(ScrapeSettings()) as scraper, scene.source() as source:
        before_pods, before = await scraper.read(scene.targets), await settled(scene, source, 0)
        for engine in scene.engines:
            for _ in range(ANSWERS):
                engine.ask(tokens=TOKENS)
        finished = sum(
            (each.page.finished or 0) for each in before_pods.values() if each.page is not None
        ) + ANSWERS * len(scene.engines)
        after_pods, after = await scraper.read(scene.targets), await settled(scene, source, finished)
    for uid in before:
        assert figures(after[uid].page) == figures(after_pods[uid].page)
        old, new = before[uid].page, after[uid].page
        assert old is not None
        assert new is not None
        assert new.faults == ()
        delta = between(old, new)
        assert (delta.restarted, delta.arrivals, delta.finished) == (False, ANSWERS, ANSWERS)
        assert delta.output_tokens == ANSWERS * TOKENS
        assert after[uid].at > before[uid].at


async def test_a_sample_is_dated_when_it_was_taken_and_stays_so_until_there_is_a_newer_one(
    scene: Scene,
) -> None:
    async with scene.source() as source:
        await settled(scene, source, 0)
        began = time.monotonic()
        dates = [(await source.read(scene.targets))["pod-1"].at for _ in range(200)]
        took = time.monotonic() - began
    assert dates == sorted(dates)
    assert len(set(dates)) <= took + 2, "one date for each scrape, and there is one a second"


async def test_matchers_choose_the_cluster(scene: Scene) -> None:
    async with scene.source('cluster="east"') as east, scene.source('cluster="west"') as west:
        assert (await settled(scene, east, 0))["pod-0"].page is not None
        found = await west.read(scene.targets)
    assert {each.fault for each in found.values()} == {ScrapeFault.NOT_SCRAPED}


async def test_matchers_that_are_no_promql_are_told_in_the_servers_words(scene: Scene) -> None:
    async with scene.source('cluster="') as source:
        found = await source.read(scene.targets)
    assert {each.fault for each in found.values()} == {ScrapeFault.REFUSED}
    assert all("parse error" in each.words for each in found.values())


async def test_a_pod_that_restarts_or_goes_is_noticed(tmp_path: Path) -> None:
    port = free_port()
    target = [Target("own", "127.0.0.1", port)]
    with running_prometheus(tmp_path, [scrape([f"127.0.0.1:{port}"])]) as prometheus:
        async with PrometheusSource(PrometheusSettings(prometheus.url)) as source:

            async def seen(wanted: Callable[[Scraped], bool]) -> Scraped:
                for _ in range(300):
                    found = (await source.read(target))["own"]
                    if wanted(found):
                        return found
                    await asyncio.sleep(0.1)
                raise AssertionError(f"seen last: {found}")

            with running_engine(tmp_path, port=port) as engine:
                engine.ask()
                before = await seen(lambda found: found.page is not None and found.page.finished == 1)
            gone = await seen(lambda found: found.page is None)
            with running_engine(tmp_path, port=port):
                after = await seen(lambda found: found.page is not None)
    assert gone.fault is ScrapeFault.NOT_SCRAPED
    assert "does it scrape the pod?" in gone.words
    assert before.page is not None
    assert after.page is not None
    assert between(before.page, after.page).restarted
    assert after.at > before.at


async def test_a_server_that_is_away_is_told_for_every_pod(scene: Scene) -> None:
    settings = PrometheusSettings(f"http://127.0.0.1:{free_port()}", pods_at_once=1)
    async with PrometheusSource(settings) as source:
        found = await source.read(scene.targets)
    assert {each.fault for each in found.values()} == {ScrapeFault.UNREACHABLE}
    assert all(each.words.startswith("the Prometheus server: ") for each in found.values())
