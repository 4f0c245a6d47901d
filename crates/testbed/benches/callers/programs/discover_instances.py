"""Calls a random instance of each name ten times a second, out of an answer of DiscoverInstances that it keeps for some
seconds. The arguments are, for each name, the name, the endpoint of its Cloud Map and an access key."""

import http.client
import os
import random
import sys
import threading
import time
import urllib.request

import boto3
import botocore.config
import botocore.exceptions

CACHE_SECONDS = float(os.environ["CACHE_SECONDS"])
CONFIG = botocore.config.Config(inject_host_prefix=False)


def repeat(host: str, endpoint: str, key: str, secret: str, token: str) -> None:
    name, port = host.split(":")
    service, namespace = name.split(".", 1)
    session = boto3.session.Session(key, secret, token, "eu-central-1")
    client = session.client("servicediscovery", endpoint_url=endpoint, config=CONFIG)
    addresses: list[str] = []
    read = 0.0
    while True:
        began = time.time()
        try:
            if began - read > CACHE_SECONDS:
                found = client.discover_instances(NamespaceName=namespace, ServiceName=service)
                addresses = [instance["Attributes"]["AWS_INSTANCE_IPV4"] for instance in found["Instances"]]
                read = began
            with urllib.request.urlopen(f"http://{random.choice(addresses)}:{port}/", timeout=1) as response:
                outcome = response.read().decode()
        except IndexError:
            outcome = "no instance"
        except (OSError, http.client.HTTPException, botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
            outcome = f"{type(error).__name__}: {error}"
        ended = time.time()
        print(f"{host}\t{began * 1000:.0f}\t{ended * 1000:.0f}\t{outcome}\n", end="", flush=True)
        time.sleep(max(0.0, 0.1 - (ended - began)))


for first in range(1, len(sys.argv), 5):
    threading.Thread(target=repeat, args=sys.argv[first : first + 5]).start()
