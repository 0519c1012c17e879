"""Serve a page on this computer: one folder, for reading, on the loopback address unless told otherwise."""

import collections
import contextlib
import functools
import http.server
import ipaddress
import os
import re
import socket
import sys
import threading
import webbrowser
from pathlib import Path

TYPES = {".wasm": "application/wasm", ".js": "text/javascript", ".gz": "application/gzip", ".json": "application/json"}
THIS_COMPUTER = ("127.0.0.1", "::1", "localhost")
MOST_CONNECTIONS = 64  # at a time, a thread each; a browser has six
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # and the address under which we ask it ourselves


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # on Windows that would give one port to two programs

    def __init__(self, *arguments):
        self.connections = collections.OrderedDict()  # those that are open, the oldest first
        super().__init__(*arguments)

    def process_request(self, request, client_address):
        self.connections[request] = client_address
        if len(self.connections) > MOST_CONNECTIONS:  # the oldest makes room, so that half-sent requests block nobody
            oldest, _ = self.connections.popitem(last=False)
            with contextlib.suppress(OSError):  # it has just ended by itself
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self.connections.pop(request, None)
        super().shutdown_request(request)


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Gives the files of one folder; no lists of files, and nothing that a browser has to guess."""

    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, **TYPES}
    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds without a byte, in the middle of a request too

    def send_head(self):
        if not self._is_asked_for_by_name():
            self.send_error(403)
            return None
        with contextlib.suppress(ValueError):  # no address, or no name that a file can have: NUL, half a surrogate pair
            if self._is_for_all(self.translate_path(self.path)):
                return super().send_head()
        self.send_error(404)
        return None

    def _is_for_all(self, place):
        """Return False for what is hidden or not there, and where a link leads out of the folder."""
        place = os.path.join(place, "index.html") if os.path.isdir(place) else place
        place, folder = Path(os.path.realpath(place)), Path(os.path.realpath(self.directory))
        if not os.path.isfile(place) or not place.is_relative_to(folder):
            return False
        return not any(part.startswith(".") for part in place.relative_to(folder).parts)

    def _is_asked_for_by_name(self):
        """Return False where a page of somebody else's asks, whose name leads to this computer (DNS rebinding)."""
        address = self.server.server_address[0]
        if not ipaddress.ip_address(address).is_loopback:
            return True
        names = "|".join(re.escape(f"[{name}]" if ":" in name else name) for name in (address, *THIS_COMPUTER))
        return re.fullmatch(rf"(?:{names})(?::[0-9]{{1,5}})?", self.headers.get("Host", ""), re.IGNORECASE) is not None

    def end_headers(self):
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")  # another page may have the same address tomorrow
        super().end_headers()

    def list_directory(self, path):
        self.send_error(404)

    def log_message(self, *args):
        pass

    def handle(self):
        with contextlib.suppress(OSError):  # a browser that was closed, or a network that is gone
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
