"""The heart: destinations, subscriptions, dispatch. Pure: no clock, no socket, no file, no waiting."""
