"""What the student is taught: texts, targets, and the batches of a pass."""

import random
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from edge.normaliser import Lang
from export.bert import pad
from export.corpus import Text, gather
from export.fold import write_normaliser
from export.noise import noisy
from export.student import encode
from export.teacher import Teacher, embed_cached, say
from export.vocabulary import PAD, Vocabulary, prune, restore

MAX_TEXT_TOKENS = 60
_WINDOW = 64  # batches among which rows are sorted by length


@dataclass(frozen=True, slots=True)
class Blend:
    """How a pass is put together; ``noise`` is the share of texts shown with a slip."""

    batch: int = 64
    noise: float = 0.2
    chinese_share: float = 0.45
    pool_repeats: int = 2
    seed: int = 20_261_201


@dataclass(frozen=True, slots=True)
class Lessons:
    """Texts with their targets; the held rows judge and are never trained on."""

    texts: list[Text]
    targets: NDArray[np.float32]
    mean: NDArray[np.float32]
    vocabulary: Vocabulary
    train: list[int]
    held: list[int]


def pull_together(vectors: NDArray[np.float32], texts: Sequence[Text]) -> NDArray[np.float32]:
    """Targets of length 1 in which the two languages lie on each other.

    Much of a teacher's vector only says which language it read. The mean step from an English text to its
    translation is taken out, half from each side; a Chinese text with a translation then aims at the middle
    of both. With the teacher itself, a Chinese sentence of xSID then finds its English original first among
    all sentences of both languages in 42 of 100 cases instead of 21; heads across languages gain nothing.
    """
    zh = [i for i, text in enumerate(texts) if text.lang is Lang.ZH and text.partner is not None]
    en = [text.partner for text in texts if text.lang is Lang.ZH and text.partner is not None]
    step = (vectors[zh] - vectors[en]).mean(0) if zh else np.zeros_like(vectors[0])
    side = np.array([-0.5 if text.lang is Lang.ZH else 0.5 for text in texts], np.float32)
    moved = vectors + side[:, None] * step
    targets = moved.copy()
    targets[zh] += moved[en]
    return np.asarray(targets / np.linalg.norm(targets, axis=1, keepdims=True), np.float32)


def prepare(
    data: Path,
    out: Path,
    cache: Path,
    teacher: Teacher,
    rows: Sequence[int] | None = None,
    without: str = "",
) -> Lessons:
    """Gathers and counts texts, cuts the vocabulary, asks the teacher; writes tokenizer and normaliser.

    ``rows`` are the teacher rows of a vocabulary to keep, because a student with it exists already. Sets
    whose path begins with ``without`` are left out of everything but the cache.
    """
    normaliser = write_normaliser(out / "normaliser.json")
    texts = gather(data, normaliser, lambda text: len(teacher.tokenizer.encode(text).ids) <= MAX_TEXT_TOKENS)
    own = next((i for i, t in enumerate(texts) if t.source.startswith("pools/")), len(texts))
    parts = [texts[:own], texts[own:]]
    vectors = np.concatenate([embed_cached([t.text for t in part], cache, teacher) for part in parts if part])
    texts, vectors = leave_out(texts, vectors, without)
    counts = Counter(i for e in teacher.tokenizer.encode_batch([t.text for t in texts]) for i in e.ids)
    pieces = list(zip(teacher.file.pieces, teacher.file.scores, strict=True))
    vocabulary = restore(pieces, rows) if rows else prune(pieces, counts)
    vocabulary.tokenizer().save(str(out / "tokenizer.json"), pretty=False)
    kept = sum(counts[row] for row in vocabulary.rows) / counts.total()
    held = [i for i, t in enumerate(texts) if zlib.crc32(t.text.encode()) % 100 == 0]
    train = sorted(set(range(len(texts))) - set(held))
    targets = pull_together(vectors, texts)
    by_lang = dict(Counter(text.lang.value for text in texts))
    say(f"{len(texts)} texts, {by_lang}, {kept:.2%} of tokens kept, {len(held)} held")
    return Lessons(texts, targets, targets[train].mean(0), vocabulary, train, held)


def leave_out(
    texts: list[Text], vectors: NDArray[np.float32], without: str
) -> tuple[list[Text], NDArray[np.float32]]:
    """The texts, and their vectors, of sets whose path does not begin with ``without``."""
    if not without:
        return texts, vectors
    kept = [i for i, text in enumerate(texts) if not text.source.startswith(without)]
    places = {old: new for new, old in enumerate(kept)}
    some = [texts[i] for i in kept]
    # Partners come from the one set of translations: both sides stay or go, but for a shared sentence.
    some = [replace(t, partner=places.get(t.partner)) if t.partner is not None else t for t in some]
    return some, vectors[kept]


def one_pass(
    lessons: Lessons, tokenizer: Tokenizer, blend: Blend, number: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The batches (ids, mask, targets) of pass ``number``; rows of like length go together."""
    chance = random.Random(blend.seed + number)  # noqa: S311 - repeatable, not secret
    chinese = [i for i in lessons.train if lessons.texts[i].lang is Lang.ZH]
    own = [i for i in lessons.train if lessons.texts[i].source.startswith("pools/")]
    english = len(lessons.train) - len(chinese)
    missing = int(blend.chinese_share / (1 - blend.chinese_share) * english) - len(chinese)
    order = (
        lessons.train
        + own * (blend.pool_repeats - 1)
        + chance.choices(chinese, k=max(0, missing) if chinese else 0)
    )
    chance.shuffle(order)
    window = blend.batch * 64
    for start in range(0, len(order), window):
        some = order[start : start + window]
        texts = [lessons.texts[i] for i in some]
        seen = [noisy(t.text, t.lang, chance) if chance.random() < blend.noise else t.text for t in texts]
        rows = encode(tokenizer, seen)
        places = sorted(range(len(some)), key=lambda j: len(rows[j]))
        batches = [places[j : j + blend.batch] for j in range(0, len(places), blend.batch)]
        chance.shuffle(batches)
        for batch in batches:
            ids, mask = pad([rows[j] for j in batch], PAD)
            yield ids, mask, torch.from_numpy(lessons.targets[[some[j] for j in batch]])
