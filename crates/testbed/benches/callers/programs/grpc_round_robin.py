"""Calls each name ten times a second over one gRPC channel, which divides the calls over all addresses of the name."""

import os
import sys
import threading
import time

import grpc

OPTIONS = [
    ("grpc.lb_policy_name", "round_robin"),
    ("grpc.dns_min_time_between_resolutions_ms", int(os.environ["BETWEEN_RESOLUTIONS_MS"])),
    # One channel for each name, as programs of their own would have it.
    ("grpc.use_local_subchannel_pool", 1),
]


def repeat(host: str) -> None:
    channel = grpc.insecure_channel(f"dns:///{host}", options=OPTIONS)
    address = channel.unary_unary("/shop.Web/Address")
    while True:
        began = time.time()
        try:
            outcome = address(b"", timeout=1).decode()
        except grpc.RpcError as error:
            outcome = f"{error.code().name}: {error.details()}".replace("\n", " ").replace("\t", " ")
        ended = time.time()
        print(f"{host}\t{began * 1000:.0f}\t{ended * 1000:.0f}\t{outcome}\n", end="", flush=True)
        time.sleep(max(0.0, 0.1 - (ended - began)))


for name in sys.argv[1:]:
    threading.Thread(target=repeat, args=(name,)).start()
