"""Decides in which order tenants are served: start-time fair queuing, so that no tenant's queue delays another's."""


class FairShares:
    """Start tags of requests (Goyal, Vin, Cheng: Start-time Fair Queuing, SIGCOMM 1996), in tokens.

    Requests are served by ascending tag. While two tenants both wait, the work that each was given differs by at most
    the largest request of either, whatever they queue. A tenant alone gets everything. Within a tenant tags rise.
    """

    def __init__(self) -> None:
        self._virtual = 0.0
        self._ends: dict[str, float] = {}

    def stamp(self, tenant: str, tokens: int) -> float:
        """The tag of a request of `tokens` tokens (prompt and largest answer, at least 1) that arrives now."""
        start = max(self._virtual, self._ends.get(tenant, 0.0))
        self._ends[tenant] = start + max(tokens, 1)
        return start

    def served(self, tag: float) -> None:
        """Tell that the request with this tag was given a slot."""
        self._virtual = max(self._virtual, tag)
        # A tenant whose last request lies in the past starts like a new one, so nothing need be remembered of it.
        self._ends = {tenant: end for tenant, end in self._ends.items() if end > self._virtual}

    @property
    def tenants(self) -> int:
        """Tenants that are remembered."""
        return len(self._ends)
