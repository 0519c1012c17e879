"""Serve a page on this computer: one folder, for reading, on the loopback address unless told otherwise."""

import contextlib
import functools
import http.server
import os
import socket
import sys
import threading
import urllib.parse
import webbrowser
from pathlib import Path

TYPES = {".wasm": "application/wasm", ".js": "text/javascript", ".gz": "application/gzip", ".json": "application/json"}
THIS_COMPUTER = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # and the address under which we ask it ourselves


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # on Windows that would give one port to two programs


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Gives the files of one folder; no lists of files, and nothing that a browser has to guess."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}
    protocol_version = "HTTP/1.1"

    def send_head(self):
        if not self._is_asked_for_by_name():
            self.send_error(403)
            return None
        place = Path(self.translate_path(self.path))
        place = place / "index.html" if place.is_dir() else place
        if not self._is_for_all(place):
            self.send_error(404)
            return None
        return super().send_head()

    def _is_for_all(self, place):
        """Return False for what is hidden or not there, and where a link leads out of the folder."""
        place, folder = Path(os.path.realpath(place)), Path(os.path.realpath(self.directory))
        if not place.is_file() or not place.is_relative_to(folder):
            return False
        return not any(part.startswith(".") for part in place.relative_to(folder).parts)

    def _is_asked_for_by_name(self):
        """Return False where a page of somebody else's asks, whose name leads to this computer (DNS rebinding)."""
        if self.server.server_address[0] not in THIS_COMPUTER:
            return True
        with contextlib.suppress(ValueError):  # no address at all
            return urllib.parse.urlsplit(f"//{self.headers.get('Host', '')}").hostname in THIS_COMPUTER
        return False

    def end_headers(self):
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")  # another page may have the same address tomorrow
        super().end_headers()

    def list_directory(self, path):
        self.send_error(404)

    def log_message(self, *args):
        pass

    def handle(self):
        with contextlib.suppress(ConnectionError):  # a browser that was closed
            super().handle()


def page_server(directory, host="127.0.0.1", port=0):
    """Return a server of a folder that is bound to an address, and does not serve yet.

    Args:
        directory: the folder.
        host: the address to listen on. The default is heard on this computer only.
        port: 0 takes one that is free.
    """
    handler = functools.partial(_Handler, directory=str(directory))
    try:
        return (_ServerOfIPv6 if ":" in host else _Server)((host, port), handler)
    except (OSError, OverflowError) as error:  # the latter for a port that is no port
        raise ValueError(
            f"The page cannot be served there ({getattr(error, 'strerror', None) or error}). Choose another address "
            f"or port: ports are 1 to 65535, and 0 takes one that is free. Received: host={host!r}, port={port}"
        ) from None


def serve(server, *, open_browser=True):
    """Serve until Ctrl-C, and name the address."""
    host, port = server.server_address[:2]
    is_heard_elsewhere, host = host in EVERYWHERE, EVERYWHERE.get(host, host)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    print(f"{address} (Ctrl-C ends it)", flush=True)
    if is_heard_elsewhere:
        print(f"http://{socket.gethostname()}:{port}/ for other computers", flush=True)
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    finally:
        server.server_close()
