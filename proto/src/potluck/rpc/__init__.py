"""The one place that opens channels and servers: errors, TLS and token, deadlines, health, drain, trace propagation."""
