"""The leader's own: what serves clients, and may vanish with the leadership."""
