"""Calls each name ten times a second with urllib: a new connection, and a query of its own, for each call."""

import http.client
import sys
import threading
import time
import urllib.request


def call(host: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{host}/", timeout=1) as response:
            return response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__}: {error}"


def repeat(host: str) -> None:
    while True:
        began = time.time()
        outcome = call(host)
        ended = time.time()
        print(f"{host}\t{began * 1000:.0f}\t{ended * 1000:.0f}\t{outcome}\n", end="", flush=True)
        time.sleep(max(0.0, 0.1 - (ended - began)))


for name in sys.argv[1:]:
    threading.Thread(target=repeat, args=(name,)).start()
