"""A desk's own texts as held-out questions: each judged by a bundle that never saw it or its like.

For languages whose calibration questions are too few to prove anything: a guide to a threshold and no proof,
since a desk's examples and a general pool are no sample of its traffic. The examples, and the pool of
questions out of scope, are cut into folds, near-duplicates together; of the rest a whole bundle is made,
guards and all, and the fold is judged by it. These bundles know less than the one that is shipped, which has
seen every text.
"""

import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from edge.normaliser import Lang
from export.desk import OUT_OF_SCOPE, Desk, DeskTopic, Question
from export.encoder import Encoder
from export.fit import examples_of, fit_desk
from export.heads import FOLDS, fold_of
from export.judged import Judged, judge
from export.opened import write_opened
from export.pools import Pools


def cross_fit(desk: Desk, base: Encoder, pools: Pools, langs: Collection[Lang], seed: int) -> list[Judged]:
    """The examples and pool texts that are read in some languages, as bundles judge them that lack them."""
    questions = [
        Question(text, topic.id, lang, "in_scope", where=topic.where)
        for topic in desk.topics
        for lang, texts in topic.examples.items()
        for text in texts
    ]
    questions += [
        Question(text, OUT_OF_SCOPE, lang, "out_of_scope")
        for text in pools.out_of_scope
        if (lang := base.normaliser.lang(base.normaliser.reading(text))) is not None
    ]
    folds = fold_of([question.text for question in questions], seed)
    judged = []
    for fold in range(FOLDS):
        held = [question for question, its in zip(questions, folds, strict=True) if its == fold]
        unseen = {question.text for question in held}
        known = replace(desk, topics=tuple(_without(topic, unseen) for topic in desk.topics))
        if not examples_of(known):
            continue  # no bundle can be made without the only example
        kept = replace(pools, out_of_scope=tuple(t for t in pools.out_of_scope if t not in unseen))
        with tempfile.TemporaryDirectory() as folder:
            pipeline = write_opened(Path(folder), known, base, fit_desk(known, base, kept, seed))
            # An example may be read in another language, which shall not be proven by it.
            judged += [row for row in judge(pipeline, held) if row.lang in langs]
    return judged


def _without(topic: DeskTopic, texts: Collection[str]) -> DeskTopic:
    left = {lang: tuple(t for t in own if t not in texts) for lang, own in topic.examples.items()}
    return replace(topic, examples=left)
