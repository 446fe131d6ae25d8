"""Puts together what the operator runs for its tiers: the reconcile of each, and the autoscaler of all."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tierwright.control.autoscale import Autoscaler, MakeSource
from tierwright.control.autoscale_state import StateStore
from tierwright.control.decision_words import SCALING_REASONS
from tierwright.control.pools import Pools
from tierwright.control.queue import Reconcile
from tierwright.control.reconcile import Reconciler, ReconcileSettings
from tierwright.control.scaling_source import ScalingSource
from tierwright.control.tier_settings import LoopTiming
from tierwright.kube.client import HttpKubeClient
from tierwright.kube.events import EventRecorder
from tierwright.observe.metrics import FaultKind
from tierwright.observe.prometheus_source import PrometheusSettings, PrometheusSource, server_authority
from tierwright.observe.readings import ScrapeFault
from tierwright.observe.scrape import Scraper, ScrapeSettings, authority
from tierwright.observe.store import Store, TierKey
from tierwright.settings import Settings, SettingsError
from tierwright.telemetry.autoscaling import AutoscalingMetrics
from tierwright.telemetry.metrics import Metrics


@dataclass(frozen=True)
class Parts:
    """What a reconcile works with; ``on_news`` takes tiers that must be looked at."""

    client: HttpKubeClient
    store: Store
    recorder: EventRecorder
    metrics: Metrics
    settings: Settings
    on_news: Callable[[set[TierKey]], None]
    scaling: ScalingSource


def make_reconcile(parts: Parts) -> Reconcile:
    """The reconcile of the shipped operator."""
    return Reconciler(
        parts.client,
        parts.store,
        parts.recorder,
        lambda: datetime.now(UTC),
        metrics=parts.metrics,
        settings=ReconcileSettings(
            resync=timedelta(seconds=parts.settings.resync_seconds),
            worker_repository=parts.settings.worker_repository,
        ),
        on_news=parts.on_news,
        scaling=parts.scaling,
    ).reconcile


def make_autoscaler(
    settings: Settings,
    client: HttpKubeClient,
    store: Store,
    metrics: Metrics,
    pools: Pools,
    on_change: Callable[[set[TierKey]], None],
) -> Autoscaler:
    """The autoscaler of the shipped operator; it reads no pod before it runs.

    Raises SettingsError when a certificate authority cannot be read.
    """
    make_scraper, lag = page_source(settings)
    return Autoscaler(
        store,
        StateStore(client),
        pools,
        AutoscalingMetrics(
            metrics.registry,
            reasons=sorted(SCALING_REASONS),
            causes=list(ScrapeFault),
            faults=list(FaultKind),
        ),
        on_change,
        make_scraper=make_scraper,
        timing=LoopTiming(
            settings.autoscale_seconds, lag=lag, between_writes=settings.autoscale_state_seconds
        ),
    )


def page_source(settings: Settings) -> tuple[MakeSource, float]:
    """What reads the pods' figures, the pods' own pages or a Prometheus server, and how old in seconds they may be."""
    tick = settings.autoscale_seconds
    timeout = min(settings.scrape_timeout_seconds, tick)
    if settings.prometheus_url:
        server = PrometheusSettings(
            url=settings.prometheus_url,
            matchers=settings.prometheus_matchers,
            token_file=settings.prometheus_token_file,
            timeout=timeout,
        )
        server_tls = _trust("prometheus_ca_file", settings.prometheus_ca_file, server_authority)
        return lambda: PrometheusSource(server, server_tls), timeout + tick
    scrape = ScrapeSettings(
        timeout=timeout,
        budget=max(timeout, 0.7 * tick),
        concurrency=settings.parallel_scrapes,
        token_file=settings.scrape_token_file,
    )
    tls = _trust("scrape_ca_file", settings.scrape_ca_file, authority)
    return lambda: Scraper(scrape, tls), timeout


def _trust(name: str, file: str, made: Callable[[str], ssl.SSLContext]) -> ssl.SSLContext | None:
    try:
        return made(file) if file else None
    except OSError as error:
        raise SettingsError(f"{name}={file!r}: {error}") from error
