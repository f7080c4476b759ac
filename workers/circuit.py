"""When a model whose runners die one after another is told to be unavailable. Pure."""

from __future__ import annotations


class Circuit:
    """Counts a model's deaths in a row: those with no batch run to its end between.

    Opened by `limit` of them. While it is open a restarted runner is given one batch at a time, until one succeeds.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.deaths = 0  # in a row
        self._last = ""

    @property
    def open(self) -> bool:
        return self.deaths >= self._limit

    @property
    def reason(self) -> str:
        """Why it is open."""
        return f"its runner died {self.deaths} times in a row, at last: {self._last}"

    def died(self, how: str, *, known: bool) -> None:
        """A runner died; `known`: by a request that was under suspicion and ran alone, so that no other is affected."""
        self._last = how
        self.deaths += not known

    def worked(self) -> None:
        """A batch ran to its end."""
        self.deaths = 0

    def rested(self) -> None:
        """A runner has lived for a while and was given nothing: nobody asks an unavailable model, so it must end.

        The next death opens the circuit again.
        """
        self.deaths = min(self.deaths, self._limit - 1)
