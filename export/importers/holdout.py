"""Which texts are held out where the file does not say it."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from edge.normaliser import Lang
from export.desk import OUT_OF_SCOPE
from export.importers.material import Side
from export.near import near_groups


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text in its reading form. Only a ``free`` one may move; ``side`` is where the others stand."""

    reading: str
    topic: str
    lang: Lang
    free: bool
    side: Side

    @property
    def shelf(self) -> tuple[str, Lang]:
        """What a share is taken of."""
        return self.topic, self.lang


def hold_out(texts: Sequence[Candidate], share: float, sides: Sequence[Side]) -> list[Side]:
    """The side of each text: about ``share`` of a topic's examples in each language go to ``sides``.

    Near-duplicates move together, or not at all where one of them must stay or where more than the share
    would leave; so a topic never loses its last example in a language. Which go is decided by a hash of
    the text alone, so most stay where they were when the file has grown.
    """
    placed = [text.side for text in texts]
    have = Counter(text.shelf for text in texts if text.side is Side.TRAIN and text.topic != OUT_OF_SCOPE)
    room = {shelf: min(int(share * count + 0.5), count - 1) for shelf, count in have.items()}
    for group in _by_hash(texts):
        side = sides[_digest(min(texts[i].reading for i in group))[-1] % len(sides)]
        side = next((texts[i].side for i in group if texts[i].side is not Side.TRAIN), side)
        outside = [i for i in group if texts[i].free and texts[i].topic == OUT_OF_SCOPE]
        inside = [i for i in group if texts[i].topic != OUT_OF_SCOPE]
        leaving = Counter(texts[i].shelf for i in inside)
        fits = all(count <= room.get(shelf, 0) for shelf, count in leaving.items())
        moves = fits and all(texts[i].free for i in inside)
        for i in outside + (inside if moves else []):
            placed[i] = side
        if moves:
            for shelf, count in leaving.items():
                room[shelf] -= count
    return placed


def _by_hash(texts: Sequence[Candidate]) -> list[list[int]]:
    """Groups of near-duplicates, in an order that has nothing to do with the file's."""
    groups = near_groups([text.reading for text in texts])
    return sorted(groups, key=lambda group: _digest(min(texts[i].reading for i in group)))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
