"""A page to explore layouts, served only to this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlencode

from ..errors import refuse
from ..view.explore_page import explore_page
from .output import CommandResult, print_stderr
from .usage import wrong_usage

__all__ = ["serve"]

_HOST, _PORT = "127.0.0.1", 8760
_OTHERS = ("svg", "html", "at", "stats", "tensor", "match")


def serve(options: argparse.Namespace, fields: Mapping[str, object]) -> CommandResult:
    """Serve the page, with its fields filled in, until Ctrl-C.

    Raises RuntimeFailure if the port is in use or not permitted.
    """
    others = [f"--{name}" for name in _OTHERS if getattr(options, name)]
    if others:
        raise wrong_usage(f"--serve with {others[0]}", why="--serve only serves a page")
    port = _PORT if options.port is None else options.port
    page = explore_page().encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_page = self.path.partition("?")[0] == "/"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page) if is_page else 0))
            self.end_headers()
            self.wfile.write(page if is_page and self.command == "GET" else b"")

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore browsers that disconnect."""

    try:
        server = Server((_HOST, port), Handler)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise refuse("RS-F02:port", port=port, reason=reason) from None
    state = urlencode({name: str(word) for name, word in fields.items() if word})
    url = f"http://{_HOST}:{server.server_port}/{state and '#' + state}"
    with server, contextlib.suppress(KeyboardInterrupt):
        print_stderr(f"{url}\nCtrl-C ends it")
        server.serve_forever()
    return CommandResult("", {"url": url})
