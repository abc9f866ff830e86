"""
Who is there from where: whose turn it is, and who gives way where there is no room for all.

Machines are counted by the networks that somebody may have, in two steps (`networks_of`): first
those of whole sites, then those within one. So whoever has a site with 65,536 networks is one among
the others, and of one site each network is one among its own. What is asked for takes as long with
ten thousand inside as with ten.

Invariants:
    Each site has a turn before another one has a second one, and each network of a site as well.
    Whoever has to give way is of a site or network that has as many left as whom it gives way to.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from holdfast.model.counts import Counts
from holdfast.model.networks import networks_of

Item = TypeVar("Item")


class Place(NamedTuple):
    """Where somebody is from."""

    site: str
    network: str


class Crowd(Generic[Item]):
    """Those who are there, in the order in which they came."""

    __slots__ = ("_networks", "_places", "_sites", "_turns")

    def __init__(self) -> None:
        self._places: dict[Item, Place] = {}
        self._turns: dict[str, dict[str, dict[Item, None]]] = {}
        """By site and network; whose turn it is stands first."""
        self._sites = Counts()
        self._networks: defaultdict[str, Counts] = defaultdict(Counts)
        """By site."""

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, item: object) -> bool:
        return item in self._places

    def __iter__(self) -> Iterator[Item]:
        """Give all, who came first first; nobody may come or go meanwhile."""
        return iter(self._places)

    def add(self, item: Item, address: str) -> None:
        """Take one in that is not there, behind all others of its network."""
        assert item not in self._places, "it comes once"
        site, network = place = Place(*networks_of(address))
        self._places[item] = place
        self._turns.setdefault(site, {}).setdefault(network, {})[item] = None
        self._sites.add(site, 1)
        self._networks[site].add(network, 1)

    def put_last(self, item: Item) -> None:
        """Let one that is there be behind all others of its network."""
        site, network = self._places[item]
        items = self._turns[site][network]
        items[item] = items.pop(item)
        self._places[item] = self._places.pop(item)

    def discard(self, item: object) -> bool:
        """Forget one; false: it was not there."""
        place = self._places.pop(cast("Item", item), None)
        if place is None:
            return False
        site, network = place
        del self._turns[site][network][cast("Item", item)]
        self._forget_empty(site, network)
        return True

    def _forget_empty(self, site: str, network: str) -> None:
        if not self._turns[site][network]:
            del self._turns[site][network]
            if not self._turns[site]:
                del self._turns[site]
        self._sites.add(site, -1)
        self._networks[site].add(network, -1)
        if site not in self._turns:
            del self._networks[site]

    def of(self, address: str) -> dict[Item, None]:
        """Give those of the same network, who came first first."""
        site, network = networks_of(address)
        return self._turns.get(site, {}).get(network, {})

    def fellows(self, address: str) -> dict[Item, None]:
        """
        Give those of the same network, else of its site's whose turn is next; empty: none is there.

        Of them one is to give way where nobody is `greedier`: so who has as much as anybody takes
        nothing more from others.
        """
        site, network = networks_of(address)
        networks = self._turns.get(site, {})
        return networks.get(network) or next(iter(networks.values()), {})

    def site_count(self, address: str) -> int:
        """How many are of the same site."""
        return self._sites.of(networks_of(address)[0])

    @property
    def site_count_max(self) -> int:
        """How many the site has that has the most."""
        return self._sites.most

    def greedier(self, address: str) -> dict[Item, None]:
        """
        Give those of whom one is to give way to somebody from this address; empty: of nobody.

        They are of the site that has the most, and there of the network that has the most; where
        the address is of such a site itself, of its own site's. Who gives way has at least as many
        left as whom it gives way to, so nobody takes a place back and forth.
        """
        site, network = networks_of(address)
        if self._sites.most > self._sites.of(site) + 1:
            return self._most_of(self._sites.first)
        if site in self._turns and self._networks[site].most > self._networks[site].of(network) + 1:
            return self._most_of(site)
        return {}

    def giving_way(self, address: str) -> Item:
        """
        Give who is forgotten for somebody from this address where no more can be remembered: of who
        has more, else of his own, else of all whoever came first; somebody must be there.
        """
        return next(iter(self.greedier(address) or self.fellows(address) or self._places))

    def _most_of(self, site: str) -> dict[Item, None]:
        return self._turns[site][self._networks[site].first]

    def greediest(self) -> dict[Item, None]:
        """Give those of the network that has the most, of the site that has; empty: nobody."""
        return self._most_of(self._sites.first) if self._places else {}

    @property
    def count_of_sites(self) -> int:
        """How many sites somebody is of."""
        return len(self._turns)

    def look(self) -> Item | None:
        """Give whose turn it is, who stays; the next turn is another site's. None: nobody."""
        if not self._turns:
            return None
        site, networks = next(iter(self._turns.items()))
        network, items = next(iter(networks.items()))
        networks[network] = networks.pop(network)  # Behind the others.
        self._turns[site] = self._turns.pop(site)
        return next(iter(items))

    def take(self) -> Item | None:
        """Take out whose turn it is; None: there is nobody."""
        item = self.look()
        if item is not None:
            self.discard(item)
        return item

    def next_of_fewest(self, others: Crowd[Item]) -> Item | None:
        """Give the next one of those of whose site, and then network, others has fewest."""
        if not self._turns:
            return None
        site = min(self._turns, key=others._sites.of)
        networks = self._turns[site]
        network = next(iter(networks))
        if site in others._turns:
            network = min(networks, key=others._networks[site].of)
        return next(iter(networks[network]))
