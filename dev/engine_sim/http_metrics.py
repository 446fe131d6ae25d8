"""Keeps the metric families that vLLM's HTTP layer adds to the engine's."""

from prometheus_client import CollectorRegistry, Counter, Histogram, Summary

HTTP_SECONDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60,
)  # fmt: skip


class HttpMetrics:
    """Requests, sizes and durations by handler; sizes are those that Content-Length declares."""

    def __init__(self, registry: CollectorRegistry) -> None:
        by_handler = ["handler"]
        self._requests = Counter(
            "http_requests",
            "Requests by method, status and handler.",
            ["method", "status", "handler"],
            registry=registry,
        )
        self._request_size = Summary(
            "http_request_size_bytes", "Request bodies.", by_handler, registry=registry
        )
        self._response_size = Summary(
            "http_response_size_bytes", "Response bodies.", by_handler, registry=registry
        )
        self._fine = Histogram(
            "http_request_duration_highr_seconds",
            "Latency, all handlers.",
            buckets=HTTP_SECONDS,
            registry=registry,
        )
        self._by_handler = Histogram(
            "http_request_duration_seconds",
            "Latency by handler.",
            ["method", "handler"],
            buckets=(0.1, 0.5, 1),
            registry=registry,
        )

    def request(
        self,
        *,
        method: str,
        handler: str,
        status: int,
        seconds: float,
        request_bytes: int,
        response_bytes: int,
    ) -> None:
        """Count one answered request."""
        self._requests.labels(method=method, status=f"{status // 100}xx", handler=handler).inc()
        self._request_size.labels(handler=handler).observe(request_bytes)
        self._response_size.labels(handler=handler).observe(response_bytes)
        self._fine.observe(seconds)
        self._by_handler.labels(method=method, handler=handler).observe(seconds)
