"""Whether a port can be listened on."""

import socket


def fault(host: str, port: int) -> OSError | None:
    """Why `host`:`port` cannot be listened on now; None where it can. A port left over from a moment ago counts as free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None
