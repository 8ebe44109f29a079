"""Desk advice by the model: what only one sees who has read all examples at once.

Every example is judged by heads that never saw it or a near-duplicate of it, so that what they take for
another topic is what users' questions will be taken for.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from export.advice.asked import Asked
from export.advice.conflicts import find_conflicts
from export.advice.gaps import find_gaps
from export.advice.judged import judge
from export.advice.needs import find_needs
from export.advice.suspects import find_suspects
from export.check import Finding
from export.desk import Desk
from export.encoder import Encoder
from export.pools import load_pools


def advise(desk: Desk, base: Encoder, asked: Sequence[Asked] = (), seed: int = 0) -> list[Finding]:
    """The advice on a desk, kind by kind, the most important of each first; no kind for a desk of one topic.

    ``asked``: what users asked, for the gaps. Raises BundleError for a base whose embeddings tell nothing.
    """
    if len(desk.topics) < 2:
        return []
    judged = judge(desk, base, seed)
    found = [*find_suspects(judged), *find_conflicts(judged), *find_needs(judged)]
    return [*find_gaps(judged, base, load_pools(), asked, seed), *found] if asked else found


def advise_by(desk: Desk, folder: Path, asked: Sequence[Asked] = ()) -> list[Finding] | None:
    """The advice by the base student of a folder; None, with a line on stderr, where there is no such folder.

    Raises BundleError for a folder that is no base student, also where there is none to judge ``asked``.
    """
    if not asked and not folder.is_dir():
        print(
            f"frontdesk: the advice by the model was left out: there is no base student in {folder}. It is "
            "in Frontdesk's repository, under models/base; name its folder by --base.",
            file=sys.stderr,
        )
        return None
    return advise(desk, Encoder(folder), asked)
