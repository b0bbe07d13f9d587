"""Where tokens come from: profiles, weights, the backends, and the host that owns one engine."""
