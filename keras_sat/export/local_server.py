"""Serve the folder of a web page over HTTP: read-only and, by default, only to this
computer.
"""

import contextlib
import functools
import http.server
import ipaddress
import os
import re
import socket
import threading
import webbrowser
from pathlib import Path

TYPES = {
    ".wasm": "application/wasm",
    ".js": "text/javascript",
    ".gz": "application/gzip",
    ".json": "application/json",
}


class _Server(http.server.ThreadingHTTPServer):
    allow_reuse_address = os.name != "nt"  # on Windows two programs could then share a port

    def __init__(self, address, handler):
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serve the files of one folder with their MIME types, and no listings."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}
    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds without a byte, also within a request

    def send_head(self):
        if not self._is_asked_for_by_name():
            return self.send_error(403)
        # An invalid address or file name: NUL, a lone surrogate.
        with contextlib.suppress(ValueError):
            if self._is_public(self.translate_path(self.path)):
                return super().send_head()
        return self.send_error(404)

    def _is_public(self, path):
        """Return False for a file that is hidden, missing or, after resolving links,
        outside the folder.
        """
        path = os.path.join(path, "index.html") if os.path.isdir(path) else path
        path, folder = Path(os.path.realpath(path)), Path(os.path.realpath(self.directory))
        if not os.path.isfile(path) or not path.is_relative_to(folder):
            return False
        return not any(part.startswith(".") for part in path.relative_to(folder).parts)

    def _is_asked_for_by_name(self):
        """Return False if the Host header of a request names another host, as in a DNS
        rebinding attack.
        """
        address = self.server.server_address[0]
        if not ipaddress.ip_address(address).is_loopback:
            return True
        names = "|".join(map(re.escape, (_in_url(address), "127.0.0.1", "localhost")))
        expected = rf"(?:{names})(?::[0-9]{{1,5}})?"
        host = self.headers.get("Host", "")
        return re.fullmatch(expected, host, re.IGNORECASE) is not None

    def end_headers(self):
        self.send_header("X-Content-Type-Options", "nosniff")
        # Another page may have the same address tomorrow.
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args):
        pass

    def handle(self):
        with contextlib.suppress(OSError):  # the browser was closed, or the network failed
            super().handle()


def _in_url(host):
    return f"[{host}]" if ":" in host else host


def page_server(directory, host="127.0.0.1", port=0):
    """Return an HTTP server for a folder, bound to an address; `serve` starts it.

    Port 0 picks a free port.
    """
    try:
        return _Server((host, port), functools.partial(_Handler, directory=str(directory)))
    except (OSError, OverflowError) as error:  # the second for a port above 65535
        raise ValueError(
            "The page cannot be served at this address "
            f"({getattr(error, 'strerror', None) or error}). Choose another "
            f"address or port; port 0 picks a free one. Received: host={host!r}, port={port}"
        ) from None


def serve(server, *, open_browser=True):
    """Print the address of the page, and serve it until Ctrl-C."""
    host, port = server.server_address[:2]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    address = f"http://{_in_url(everywhere.get(host, host))}:{port}/"
    print(f"{address} (Ctrl-C ends it)", flush=True)
    if host in everywhere:
        print(f"http://{socket.gethostname()}:{port}/ for other computers", flush=True)
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt), server:
        server.serve_forever()
