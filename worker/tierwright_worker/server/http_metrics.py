"""Keeps the metric families that vLLM's HTTP layer adds to the engine's."""

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

# fmt: off
FINE_SECONDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60)
# fmt: on


class HttpMetrics:
    """Requests, sizes and durations by route; sizes are those that Content-Length declares."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "http_requests",
            "Requests by method, status and route.",
            ["method", "status", "handler"],
            registry=registry,
        )
        self._request_bytes = Summary(
            "http_request_size_bytes", "Request bodies.", ["handler"], registry=registry
        )
        self._response_bytes = Summary(
            "http_response_size_bytes", "Response bodies.", ["handler"], registry=registry
        )
        self._fine = Histogram(
            "http_request_duration_highr_seconds",
            "Latency, all routes.",
            buckets=FINE_SECONDS,
            registry=registry,
        )
        self._by_route = Histogram(
            "http_request_duration_seconds",
            "Latency by route.",
            ["method", "handler"],
            buckets=(0.1, 0.5, 1),
            registry=registry,
        )

    def answered(
        self, *, method: str, route: str, status: int, seconds: float, request_bytes: int, response_bytes: int
    ) -> None:
        """Count one request."""
        self._requests.labels(method=method, status=f"{status // 100}xx", handler=route).inc()
        self._request_bytes.labels(handler=route).observe(request_bytes)
        self._response_bytes.labels(handler=route).observe(response_bytes)
        self._fine.observe(seconds)
        self._by_route.labels(method=method, handler=route).observe(seconds)
