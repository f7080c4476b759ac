"""One question to a Kafka broker over a plain socket: are you open for clients?"""

import socket
import struct

METADATA_KEY, METADATA_VERSION = 3, 1
ANSWER_TIMEOUT_S = 2.0


def answers(port: int) -> bool:
    """Whether the broker on 127.0.0.1:`port` answers a client's metadata request and names an active broker.

    A broker that listens but has not joined its cluster yet answers with an empty list.
    """
    client = b"headrace"
    request = struct.pack(f">hhih{len(client)}si", METADATA_KEY, METADATA_VERSION, 0, len(client), client, 0)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as answer:
                _, _, brokers = struct.unpack(">iii", answer.read(12))
    except (OSError, struct.error):
        return False
    return bool(brokers > 0)
