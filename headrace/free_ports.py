"""TCP ports on 127.0.0.1 that nobody listens on."""

import random
import socket

# Below the range that systems take outgoing ports from: in that range a client that reconnects to a stopped broker may
# itself take the broker's port before the broker is back.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        # As Kafka does: connections of an earlier broker that are still closing do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that is free now; somebody else may take it before it is used."""
    while True:
        port = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        if is_free(port):
            return port
