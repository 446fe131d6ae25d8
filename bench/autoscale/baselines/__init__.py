"""Published scaling rules as shipped, read from their sources; each sees the page that ours sees. `registry` has them by name."""

from bench.autoscale.baselines.hpa import HpaKv, HpaRunning
from bench.autoscale.baselines.keda import KedaWaiting
from bench.autoscale.baselines.registry import BASELINES, Baseline
from bench.autoscale.baselines.slo_aware import SloAware
from bench.autoscale.baselines.static import Static

__all__ = ["BASELINES", "Baseline", "HpaKv", "HpaRunning", "KedaWaiting", "SloAware", "Static"]
