"""The embeddings of one scope's questions in one matrix, searched exactly."""

import numpy as np

_FIRST_ROWS = 8


class Shelf:
    """Rows of float32 ``[dim]``, each of length 1, under ids. Removing moves the last row into the gap."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._rows = np.empty((_FIRST_ROWS, dim), np.float32)
        self._ids: list[str] = []
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def put(self, id_: str, vector: np.ndarray) -> None:
        """Add a row, or replace the one of this id. ``vector``: float32 ``[dim]`` of length 1."""
        place = self._places.get(id_)
        if place is None:
            place = self._places[id_] = len(self._ids)
            self._ids.append(id_)
            if place == len(self._rows):
                self._resize(place + place // 2)
        self._rows[place] = vector

    def remove(self, id_: str) -> None:
        """Remove the row of an id, if there is one."""
        place = self._places.pop(id_, None)
        if place is None:
            return
        last = self._ids.pop()
        if last != id_:
            self._rows[place] = self._rows[len(self._ids)]
            self._ids[place], self._places[last] = last, place
        if _FIRST_ROWS <= len(self._ids) < len(self._rows) // 3:
            self._resize(len(self._rows) // 2)

    def vector(self, id_: str) -> np.ndarray:
        """A copy of a row. Raises KeyError."""
        return np.array(self._rows[self._places[id_]])

    def nearest(self, vector: np.ndarray, count: int) -> list[tuple[float, str]]:
        """The ``count`` most similar rows as (cosine clipped to [0, 1], id), best first."""
        if not self._ids:
            return []
        # einsum keeps to this thread: BLAS would share ten thousand rows with all cores, and wait for those
        # that are busy with something else, many times as long as the sum takes.
        likeness = np.einsum("ij,j->i", self._rows[: len(self._ids)], vector)
        count = min(count, len(likeness))
        best = np.argpartition(-likeness, count - 1)[:count]
        ordered = best[np.argsort(-likeness[best], kind="stable")]
        return [(min(1.0, max(0.0, float(likeness[place]))), self._ids[place]) for place in ordered]

    def _resize(self, rows: int) -> None:
        grown = np.empty((rows, self.dim), np.float32)
        filled = min(rows, len(self._rows))
        grown[:filled] = self._rows[:filled]
        self._rows = grown
