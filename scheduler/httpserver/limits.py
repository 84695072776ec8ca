"""The limits of all listeners: connections, seconds, bytes.

docs/security.md has the same figures as a table, and a test compares the two.
"""

from __future__ import annotations

from typing import Final

import msgspec

KIB: Final = 1024
MIB: Final = 1024 * KIB

#: The longest request head, in bytes; aiohttp alone accepts 128 fields of 8 KiB, which is 1 MiB.
HEAD_MAX: Final = 16 * KIB
#: Header fields of one request.
FIELDS_MAX: Final = 64
#: The longest request line, and the longest header field, in bytes.
LINE_MAX: Final = 8 * KIB
#: What aiohttp buffers of one body before it stops reading the connection, in bytes (twice this).
READ_BUFFER: Final = 32 * KIB
#: asyncio allocates a buffer of this size for each TLS connection, before the handshake. Its own
#: default is 256 KiB: a thousand connections would need the memory of the whole container.
TLS_BUFFER: Final = 32 * KIB
#: Maximum number of sockets accepted at once before the event loop runs other work.
ACCEPTED_AT_ONCE: Final = 64
#: How long the acceptor pauses when the process has no file descriptor left, in seconds.
NO_FILES_PAUSE_S: Final = 0.05
#: Of the connections of a listener, and of an address, this share is kept for connections that
#: have not sent a complete request yet: without it, clients that hold proven connections could
#: have every new client dropped before its first request.
NEW_SHARE: Final = 0.25
#: The soft limit of open files that both programs ask for at start, if the hard limit allows it.
FILES_WANTED: Final = 65_536
#: Interval in seconds of log lines about invalid or failed requests.
LOG_EVERY_S: Final = 10.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one listener."""

    #: Open connections in all, from the accepted socket on.
    connections: int
    #: Open connections of one address. One API server has at most 600 requests in flight by default
    #: (--max-requests-inflight plus --max-mutating-requests-inflight).
    per_address: int
    #: The longest request body, in bytes.
    body: int = 0
    #: Bodies longer than one read buffer: bytes held at once, of all connections together,
    #: from the first byte to the answer.
    bodies: int = 0
    #: From the accepted socket to its first byte, and as long again to the end of the handshake.
    handshake_s: float = 10.0
    #: From the first to the last byte of a request head.
    head_s: float = 10.0
    #: From the end of the head to the last byte of the body.
    body_s: float = 10.0
    #: How long a client may leave its answer unread.
    unread_s: float = 10.0
    #: A connection without a request. Longer than the API server keeps an idle connection (90 s):
    #: if this side closed first, a review could be lost. aiohttp's default is an hour.
    idle_s: float = 180.0
    #: After a refusal, what the client still sends is discarded for so long, so that it can read
    #: the refusal.
    linger_s: float = 2.0
    #: How long the client may take to answer the end of a TLS connection.
    farewell_s: float = 1.0
    #: How often overdue connections are looked for.
    sweep_s: float = 0.5


#: Port 8443 of the webhook: reviews.
REVIEWS: Final = Limits(connections=1000, per_address=600, body=3 * MIB, bodies=16 * MIB)
#: Port 8445 of the webhook, if enabled: API servers read decisions for users.
AGGREGATED: Final = Limits(connections=256, per_address=128)
#: The Unix socket of the scheduler; its only client is the webhook in the same pod.
SOCKET: Final = Limits(connections=256, per_address=256, body=4 * MIB, bodies=32 * MIB)
#: The port on which the leader answers the other replicas.
REPLICAS: Final = Limits(connections=256, per_address=128, body=4 * MIB, bodies=16 * MIB)
#: Port 8080: probes and metrics.
HEALTH: Final = Limits(connections=256, per_address=128)
#: Port 8090 on the loopback interface: the decisions API.
DECISIONS: Final = Limits(connections=128, per_address=128)
