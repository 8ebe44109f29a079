"""``frontdesk distill``: the base student tuned end to end on a desk, then packed as ``train`` does.

Every exit learns the topics by cross-entropy with label smoothing (Szegedy et al. 2016), the last exit
teaches the earlier ones (Zhang et al. 2019, self-distillation), a teacher's soft labels are learnt beside
them where there is one (Hinton et al. 2015), and texts that are no topic's shall look like all topics at
once (Hendrycks et al. 2019, outlier exposure). A tenth of the texts is kept out: it calibrates the heads.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from edge.bundle import Bundle
from edge.errors import DeskError
from edge.normaliser import Lang
from export.bert import Dims, pad
from export.desk import Desk
from export.encoder import Encoder
from export.evaluate import Evaluation
from export.fit import Tuned, away, examples_of
from export.heads import Head, fold_of
from export.noise import noisy
from export.pack import check_target
from export.pools import Pools
from export.progress import Progress
from export.student import Student, encoder_weights
from export.teachers import soft_labels
from export.traffic import NOTHING, Taught
from export.train import train_desk
from export.training import rate_at
from export.vocabulary import PAD
from export.weights import Affine, EncoderWeights, LayerWeights, Norm

HELD = 10  # one text in this many is kept out
EXIT_WEIGHTS = (0.3, 0.6, 1.0)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to tune.

    ``scale``: the length of a topic's vector at the start, the logit of a perfect match.
    ``outlier_share``: texts out of scope in an epoch, at most, as a share of the examples.
    """

    epochs: int = 10
    batch: int = 64
    rate: float = 1.5e-4
    table_rate: float = 2e-4
    head_rate: float = 1e-3
    warmup: float = 0.05
    decay: float = 0.01
    smoothing: float = 0.05
    self_weight: float = 0.5
    teacher_weight: float = 1.0
    outlier_weight: float = 0.3
    outlier_share: float = 0.5
    noise: float = 0.15
    dropout: float = 0.1
    scale: float = 16.0


@dataclass(frozen=True, slots=True)
class Texts:
    """What is learnt from, in reading form. ``topic`` is an index, or -1 for outliers."""

    texts: list[str]
    langs: list[Lang]
    topic: np.ndarray
    soft: np.ndarray | None


def distill_desk(
    desk: Desk,
    base: Encoder,
    pools: Pools,
    out: Path,
    seed: int = 0,
    teacher: Path | None = None,
    plan: Plan = Plan(),
    taught: Taught = NOTHING,
) -> tuple[Bundle, Evaluation]:
    """Build a bundle whose student was tuned on the desk. Raises DeskError, BundleError.

    ``taught``: texts that are learnt beside the desk's, and neither kept out nor answered by themselves.
    """
    check_target(out)
    examples = examples_of(desk)
    pools = _sifted(pools, base, [text for text, _ in examples])
    outliers = [*pools.out_of_scope, *desk.out_of_scope]
    raw = [*(text for text, _ in examples), *outliers]
    topic = np.array([place for _, place in examples] + [-1] * len(outliers))
    held = _held(raw, topic, seed)
    unseen = frozenset(raw[i] for i in held)
    taught = taught.away_from(unseen, base.normaliser)
    raw += [*(text for text, _ in taught.examples), *taught.outliers]
    topic = np.array([*topic, *(place for _, place in taught.examples), *[-1] * len(taught.outliers)])
    kept = [i for i in range(len(raw)) if i not in held]
    readings = [base.normaliser.reading(raw[i]) for i in kept]
    soft = None
    inside = topic[kept] >= 0
    if teacher is not None:
        chosen = np.flatnonzero(inside)
        folds = np.random.default_rng(seed).integers(5, size=len(chosen))
        names = [t.id for t in desk.topics]
        soft = np.zeros((len(kept), len(names)), np.float32)
        soft[chosen] = soft_labels(teacher, [raw[kept[i]] for i in chosen], topic[kept][chosen], names, folds)
    langs = [base.normaliser.lang(text) or Lang.EN for text in readings]
    texts = Texts(readings, langs, topic[kept], soft)
    weights, heads = tune(base, texts, len(desk.topics), plan, seed)
    learnt = Tuned(heads, unseen, taught)
    return train_desk(desk, base.tuned(weights), pools, out, seed, learnt)


def _held(texts: Sequence[str], topic: np.ndarray, seed: int) -> set[int]:
    """Places of the texts that are kept out: about a tenth, and of no topic all.

    The seed is not that of the folds which judge them: both cuts would fall on the same places.
    """
    out = fold_of(texts, seed + 1, HELD) == 0
    out &= np.isin(topic, topic[~out]) | (topic < 0)
    return set(np.flatnonzero(out).tolist())


def _sifted(pools: Pools, base: Encoder, examples: list[str]) -> Pools:
    """The pools without what the desk's examples may well answer."""
    x = base.embed(examples, "Embedding the examples")[-1]
    pool = base.embed(pools.out_of_scope, "Embedding the out-of-scope pool")[-1]
    kept = tuple(text for text, far in zip(pools.out_of_scope, away(pool, x), strict=True) if far)
    if not kept:
        raise DeskError(["Every text of the out-of-scope pool is near an example: is the base broken?"])
    return replace(pools, out_of_scope=kept)


def tune(
    base: Encoder, texts: Texts, topics: int, plan: Plan, seed: int
) -> tuple[EncoderWeights, tuple[Head, ...]]:
    """The base's weights after end-to-end training on the texts, and the topic head of every exit."""
    torch.manual_seed(seed)
    weights = base.weights()
    student = student_of(weights, plan.dropout)
    rows = [base.ids(text) for text in texts.texts]
    targets = torch.from_numpy(texts.topic)
    heads = _start_heads(student.eval(), rows, targets, topics, plan)
    student.train()
    table = list(student.bert.words.parameters())
    rest = [p for name, p in student.named_parameters() if not name.startswith("bert.words.")]
    optimizers = (
        torch.optim.AdamW(
            [{"params": rest, "lr": plan.rate}, {"params": list(heads.parameters()), "lr": plan.head_rate}],
            weight_decay=plan.decay,
        ),
        torch.optim.SparseAdam(table, plan.table_rate),
    )
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    inside = int((texts.topic >= 0).sum())
    seen = inside + min(len(rows) - inside, round(plan.outlier_share * inside))
    steps = plan.epochs * -(-seen // plan.batch)
    progress, done = Progress("Tuning the student", steps), 0
    for epoch in range(plan.epochs):
        for chosen, ids, mask in _batches(texts, base, plan, seed + epoch):
            share = rate_at(done / steps, plan.warmup)
            for optimizer, rates in zip(optimizers, peaks, strict=True):
                for group, peak in zip(optimizer.param_groups, rates, strict=True):
                    group["lr"] = peak * share
                optimizer.zero_grad()
            soft = None if texts.soft is None else torch.from_numpy(texts.soft[chosen])
            _loss(student(ids, mask), heads, targets[chosen], soft, plan).backward()
            nn.utils.clip_grad_norm_(rest, 1.0)
            for optimizer in optimizers:
                optimizer.step()
            done += 1
            progress.add(1)
    progress.end()
    learnt = tuple(
        Head(head.weight.detach().numpy().T.copy(), head.bias.detach().numpy().copy()) for head in heads
    )
    return weights_of(student, weights), learnt


def _batches(
    texts: Texts, base: Encoder, plan: Plan, seed: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """One epoch: (places, ids, mask); rows of like length go together, some with a slip.

    Every epoch draws its own outliers: a small desk is not drowned in them.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    order = np.flatnonzero(texts.topic >= 0).tolist()
    outliers = np.flatnonzero(texts.topic < 0).tolist()
    order += chance.sample(outliers, min(len(outliers), round(plan.outlier_share * len(order))))
    chance.shuffle(order)
    window = plan.batch * 32
    for start in range(0, len(order), window):
        some = order[start : start + window]
        seen = [
            noisy(texts.texts[i], texts.langs[i], chance) if chance.random() < plan.noise else texts.texts[i]
            for i in some
        ]
        rows = {i: base.ids(text) for i, text in zip(some, seen, strict=True)}
        some.sort(key=lambda i: len(rows[i]))
        batches = [some[at : at + plan.batch] for at in range(0, len(some), plan.batch)]
        chance.shuffle(batches)
        for batch in batches:
            yield batch, *pad([rows[i] for i in batch], PAD)


def _loss(
    estimates: Sequence[Tensor], heads: nn.ModuleList, target: Tensor, soft: Tensor | None, plan: Plan
) -> Tensor:
    inside = target >= 0
    logits = [head(nn.functional.normalize(z, dim=1)) for head, z in zip(heads, estimates, strict=True)]
    last = logits[-1].detach().softmax(1)
    total = torch.zeros(())
    for place, (weight, found) in enumerate(zip(EXIT_WEIGHTS, logits, strict=True)):
        log_share = found.log_softmax(1)
        loss = torch.zeros(())
        if inside.any():
            loss = nn.functional.cross_entropy(found[inside], target[inside], label_smoothing=plan.smoothing)
            if place < len(logits) - 1:
                loss = loss - plan.self_weight * (last[inside] * log_share[inside]).sum(1).mean()
            if soft is not None:
                loss = loss - plan.teacher_weight * (soft[inside] * log_share[inside]).sum(1).mean()
        if not inside.all():
            loss = loss - plan.outlier_weight * log_share[~inside].mean(1).mean()
        total = total + weight * loss
    return total


def _start_heads(
    student: Student, rows: Sequence[list[int]], targets: Tensor, topics: int, plan: Plan
) -> nn.ModuleList:
    """A linear head for each exit; a topic's vector starts as the mean direction of its texts."""
    width = student.bert.dims.width
    heads = nn.ModuleList(nn.Linear(width, topics) for _ in student.exits)
    sums = torch.zeros(len(student.exits), topics, width)
    with torch.no_grad():
        for start in range(0, len(rows), 128):
            ids, mask = pad([*rows[start : start + 128]], PAD)
            here = targets[start : start + 128]
            for place, z in enumerate(student(ids, mask)):
                sums[place].index_add_(0, here[here >= 0], nn.functional.normalize(z, dim=1)[here >= 0])
        for head, total in zip(heads, sums, strict=True):
            head.weight.copy_(plan.scale * nn.functional.normalize(total, dim=1))
            head.bias.zero_()
    return heads


def student_of(weights: EncoderWeights, dropout: float = 0.0) -> Student:
    """A torch student with these weights; its estimates are centred already."""
    vocabulary, width = weights.words.shape
    dims = Dims(
        vocabulary, len(weights.positions), width, len(weights.layers), weights.heads,
        weights.layers[0].rise.weight.shape[0], weights.eps, dropout,
    )  # fmt: skip
    student = Student(dims, [exit_.layer for exit_ in weights.exits])
    parts: list[tuple[nn.Module, Affine | Norm]] = [(student.bert.norm, weights.norm)]
    for layer, stored in zip(student.bert.layers, weights.layers, strict=True):
        parts += [(getattr(layer, name), getattr(stored, name)) for name in LayerWeights.__slots__]
    parts += [
        (projection, exit_.projection)
        for projection, exit_ in zip(student.projections, weights.exits, strict=True)
    ]
    with torch.no_grad():
        student.bert.words.weight.copy_(torch.tensor(weights.words))
        student.bert.positions.weight.copy_(torch.tensor(weights.positions))
        student.gates.copy_(torch.tensor(np.stack([exit_.gate for exit_ in weights.exits])))
        for module, values in parts:
            module.weight.copy_(torch.tensor(values.weight))
            module.bias.copy_(torch.tensor(values.bias))
    return student


def weights_of(student: Student, like: EncoderWeights) -> EncoderWeights:
    """The student's weights as numpy arrays; its estimates are centred already."""
    centre = torch.zeros(student.bert.dims.width)
    found = encoder_weights(student.state_dict(), centre, student.exits, like.heads)
    return replace(found, eps=like.eps)
