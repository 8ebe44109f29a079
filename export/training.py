"""The training loop of the base student: counted steps, checkpoints, and an exact resume."""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from export.bert import pad
from export.groups import Groups, contrast_batches
from export.lessons import Blend, Lessons, one_pass
from export.student import Student, centred_cosine, encode, run
from export.teacher import say
from export.vocabulary import PAD

CHECKPOINTS = Path(".checkpoints/base")
EXIT_WEIGHTS = (0.15, 0.4, 1.0)
TEMPERATURE = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train: ``steps`` batches, rates that rise over ``warmup`` and fall along a cosine.

    ``contrast`` weighs the contrastive loss on groups beside distilling; 0 leaves the groups out.
    """

    steps: int
    rate: float = 3e-4
    table_rate: float = 4e-4
    warmup: float = 0.03
    decay: float = 0.01
    mse: float = 0.5
    contrast: float = 0.0
    blend: Blend = field(default_factory=Blend)
    save_minutes: float = 5.0


def rate_at(done: float, warmup: float) -> float:
    """The share of the peak rate after the share ``done`` of the steps."""
    if done < warmup:
        return max(done, 1e-3) / warmup
    return float(0.5 * (1 + np.cos(np.pi * min(1.0, (done - warmup) / (1 - warmup)))))


def contrastive_loss(z: Tensor, group: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """Khosla et al. (2020), equation 2, over rows that have a partner.

    ``z`` [n, width] of length 1, ``group`` int [n].
    """
    scores = (z @ z.T / temperature).fill_diagonal_(float("-inf"))
    same = (group[:, None] == group[None]).fill_diagonal_(False)
    log_share = scores - scores.logsumexp(1, keepdim=True)
    partners = same.sum(1)
    kept = partners > 0
    total = torch.where(same, log_share, torch.zeros(())).sum(1)
    return -(total[kept] / partners[kept]).mean()


def estimates(student: Student, rows: Sequence[list[int]], chunk: int = 24) -> Tensor:
    """The student's estimates [exits, rows, width] with their gradients, in chunks of like length.

    One long text among a hundred short ones would otherwise pad them all.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    parts = [
        torch.stack(student(*pad([rows[i] for i in order[at : at + chunk]], PAD)))
        for at in range(0, len(order), chunk)
    ]
    places = torch.tensor(order).argsort()
    return torch.cat(parts, dim=1)[:, places]


def judge(student: Student, lessons: Lessons, rows: Sequence[list[int]]) -> dict[str, list[float]]:
    """The mean centred cosine of every exit to the target on held rows, by language."""
    t, mean = torch.from_numpy(lessons.targets[lessons.held]), torch.from_numpy(lessons.mean)
    langs = np.array([lessons.texts[i].lang.value for i in lessons.held])
    cosines = [centred_cosine(z, t, mean).numpy() for z in run(student, rows)]
    return {lang: [round(float(c[langs == lang].mean()), 4) for c in cosines] for lang in ("zh", "en")}


class Threads:
    """Uses one thread or all, whichever is faster now.

    On a machine that others use, a layer waits for the slower of two threads at every step, and one thread
    alone can be three times as fast. Both are tried for some batches now and then.
    """

    def __init__(self, most: int, trial: int = 10, stay: int = 400) -> None:
        self.counts = (1, most) if most > 1 else (1,)
        self.trial, self.stay = trial, stay
        self.start_trial()

    def start_trial(self) -> None:
        """Forgets the old rates and begins with one thread."""
        self.tokens, self.seconds = [0] * len(self.counts), [0.0] * len(self.counts)
        self.batches = 0
        torch.set_num_threads(self.counts[0])

    def note(self, tokens: int, seconds: float) -> None:
        """Counts a batch, and changes the number of threads where a trial begins or ends."""
        tried, trials = self.batches // self.trial, len(self.counts)
        self.batches += 1
        if tried < trials:
            self.tokens[tried] += tokens
            self.seconds[tried] += seconds
        if self.batches == trials * self.trial:
            rates = [t / s for t, s in zip(self.tokens, self.seconds, strict=True)]
            torch.set_num_threads(self.counts[rates.index(max(rates))])
        elif self.batches == self.stay:
            self.start_trial()
        elif self.batches < trials * self.trial:
            torch.set_num_threads(self.counts[self.batches // self.trial])


class Training:
    """A student with its optimizers and how far it is; what it needs to go on is in one file.

    Batches depend on the seed and the number of the step alone, so a training that was killed goes on
    with the batch that it would have had.
    """

    def __init__(
        self, student: Student, lessons: Lessons, plan: Plan, path: Path, groups: Groups | None, threads: int
    ) -> None:
        self.student, self.lessons, self.plan, self.path, self.groups = student, lessons, plan, path, groups
        self.threads = Threads(threads)
        self.done = 0
        self.history: list[dict[str, Any]] = []
        self.rest = [p for name, p in student.named_parameters() if not name.startswith("bert.words.")]
        self.optimizers = (
            torch.optim.AdamW(self.rest, plan.rate, weight_decay=plan.decay),
            torch.optim.SparseAdam(list(student.bert.words.parameters()), plan.table_rate),
        )
        self.tokenizer = lessons.vocabulary.tokenizer()
        self.held_rows = encode(self.tokenizer, [lessons.texts[i].text for i in lessons.held])
        self.mean = torch.from_numpy(lessons.mean)
        self.spread = float(torch.from_numpy(lessons.targets[lessons.train]).var(0).mean())

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what ``save`` wrote."""
        self.student.load_state_dict(state["student"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.done, self.history = state["steps"], state["history"]

    def save(self, loss: dict[str, float]) -> None:
        """Judges the student on the held rows and writes the checkpoint, whole or not at all."""
        self.history.append({"steps": self.done} | loss | judge(self.student, self.lessons, self.held_rows))
        say(f"held {self.history[-1]}")
        state = {
            "rows": self.lessons.vocabulary.rows,
            "mean": self.mean,
            "exits": self.student.exits,
            "student": self.student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "steps": self.done,
            "history": self.history,
        }
        part = self.path.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.path)

    def batches(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """The batches from the next step on."""
        every = (
            batch
            for number in itertools.count()
            for batch in one_pass(self.lessons, self.tokenizer, self.plan.blend, number)
        )
        return itertools.islice(every, self.done, self.plan.steps)

    def step(self, batch: tuple[Tensor, Tensor, Tensor], group: tuple[list[str], list[int]] | None) -> Tensor:
        """One batch; returns the losses that were summed: distilling, contrast."""
        share = rate_at(self.done / self.plan.steps, self.plan.warmup)
        for optimizer, peak in zip(self.optimizers, (self.plan.rate, self.plan.table_rate), strict=True):
            optimizer.param_groups[0]["lr"] = peak * share
            optimizer.zero_grad()
        ids, mask, target = batch
        weights = torch.tensor(EXIT_WEIGHTS)
        losses = torch.zeros(2)
        for weight, z in zip(weights, self.student(ids, mask), strict=True):
            away = 1 - centred_cosine(z, target, self.mean).mean()
            losses[0] = losses[0] + weight * (
                away + self.plan.mse * nn.functional.mse_loss(z, target) / self.spread
            )
        if group is not None:
            texts, numbers = group
            named = torch.tensor(numbers)
            for weight, z in zip(
                weights, estimates(self.student, encode(self.tokenizer, texts)), strict=True
            ):
                losses[1] = losses[1] + weight * contrastive_loss(
                    nn.functional.normalize(z - self.mean, dim=1), named
                )
        (losses[0] + self.plan.contrast * losses[1]).backward()
        nn.utils.clip_grad_norm_(self.rest, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return losses.detach()

    def run(self) -> None:
        """Trains to the last step; the checkpoint is written every ``save_minutes`` and at the end."""
        groups = None
        if self.groups is not None:
            groups = itertools.islice(contrast_batches(self.groups, self.plan.blend.seed), self.done, None)
        started = saved = told = time.monotonic()
        first, smooth = self.done, torch.zeros(2)
        for batch in self.batches():
            began = time.monotonic()
            losses = self.step(batch, next(groups) if groups is not None else None)
            self.done += 1
            now = time.monotonic()
            self.threads.note(batch[0].numel(), now - began)
            smooth = losses if self.done == first + 1 else 0.98 * smooth + 0.02 * losses
            if now - told > 30:
                told = now
                left = (now - started) / (self.done - first) * (self.plan.steps - self.done) / 60
                distil, contrast = smooth.tolist()
                say(
                    f"step {self.done}/{self.plan.steps} distil {distil:.4f} contrast {contrast:.4f} "
                    f"{left:.1f} min left"
                )
            if now - saved > self.plan.save_minutes * 60:
                saved = now
                self.save(self.figures(smooth))
        self.save(self.figures(smooth))

    @staticmethod
    def figures(smooth: Tensor) -> dict[str, float]:
        """The smoothed losses as numbers for the history."""
        distil, contrast = smooth.tolist()
        return {"distil": round(distil, 4), "contrast": round(contrast, 4)}
