"""Answers every GET with the pod's name; says so once on standard output."""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """One answer for every path."""

    def do_GET(self) -> None:
        """Send the pod's name."""
        body = os.environ["HOSTNAME"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Keep the log to the one line that the tests read."""


def main() -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(f"probe {os.environ['HOSTNAME']} serves", flush=True)  # noqa: T201 - it is what the tests read
    ThreadingHTTPServer(("", 8080), Handler).serve_forever()


if __name__ == "__main__":
    main()
