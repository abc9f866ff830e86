"""The heart: destinations, subscriptions, dispatch. Pure: no clock, socket, file or waiting."""
