"""Caps, keepalive and retries: the numbers that both ends of a connection must agree on."""

import json

MESSAGE_CAP = 64 << 20
"""Bytes of one message. Larger things travel in chunks."""
MAX_CONCURRENT_RPCS = 1024
UNARY_DEADLINE_S = 60.0
"""Deadline of a unary call whose caller gives none."""
STREAM_DEADLINE_S = 24 * 3600.0
"""Deadline of a streaming call whose caller gives none."""
GRACE_S = 10.0
"""How long calls in flight may go on after SIGTERM."""

Options = list[tuple[str, int | str]]

_SHARED: Options = [
    ("grpc.max_receive_message_length", MESSAGE_CAP),
    ("grpc.max_send_message_length", MESSAGE_CAP),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
]
SERVER_OPTIONS: Options = [
    *_SHARED,
    ("grpc.keepalive_permit_without_calls", 1),
    # Clients ping every 30 s: a stricter server would answer too_many_pings.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    # An overloaded machine reads late pings all at once; hanging up on a caller who waits would lose the call.
    ("grpc.http2.max_ping_strikes", 0),
    # With the default two servers silently share one port.
    ("grpc.so_reuseport", 0),
]
_RETRY = {
    "methodConfig": [
        {
            # Every method is idempotent or carries a request id, and gRPC never retries once an answer has begun.
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
CLIENT_OPTIONS: Options = [
    *_SHARED,
    ("grpc.enable_retries", 1),
    ("grpc.service_config", json.dumps(_RETRY)),
    # A server that restarts is found again within a second.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
