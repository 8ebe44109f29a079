"""Distils the bilingual base: ``python -m export.distill --data DIR -o models/base --minutes 40``."""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from export.lessons import Blend, Lessons, one_pass, prepare
from export.student import Student, centred_cosine, choose_layers, encode, run, start_student
from export.teacher import Teacher, say

CHECKPOINTS = Path(".checkpoints/base")
STUDENT = "student.pt"
LAYERS = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train. Rates fall along a cosine over ``minutes`` of wall clock on any machine."""

    minutes: float
    blend: Blend = field(default_factory=Blend)
    rate: float = 3e-4
    table_rate: float = 4e-4
    warmup: float = 0.03
    decay: float = 0.01
    mse: float = 0.5
    save_minutes: float = 5.0


@dataclass(slots=True)
class Progress:
    """How far a training has come; ``seconds`` counts the time of earlier runs too."""

    seconds: float = 0.0
    passes: int = 0
    texts: int = 0
    loss: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)


def rate_at(done: float, warmup: float) -> float:
    """The share of the peak rate after the share ``done`` of the time."""
    if done < warmup:
        return max(done, 1e-3) / warmup
    return float(0.5 * (1 + np.cos(np.pi * min(1.0, (done - warmup) / (1 - warmup)))))


def judge(student: Student, lessons: Lessons, rows: Sequence[list[int]]) -> dict[str, float]:
    """The mean centred cosine to the target on held rows, by language."""
    t = torch.from_numpy(lessons.targets[lessons.held])
    cosine = centred_cosine(run(student, rows), t, torch.from_numpy(lessons.mean)).numpy()
    langs = np.array([lessons.texts[i].lang.value for i in lessons.held])
    return {lang: round(float(cosine[langs == lang].mean()), 4) for lang in ("zh", "en")}


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
    """A student with its optimizers and how far it is; what it needs to go on is in one file."""

    def __init__(self, student: Student, lessons: Lessons, plan: Plan, path: Path, threads: int = 1) -> None:
        self.threads = Threads(threads)
        self.student, self.lessons, self.plan, self.path = student, lessons, plan, path
        self.progress = Progress()
        table = list(student.bert.words.parameters())
        self.rest = [p for name, p in student.named_parameters() if not name.startswith("bert.words.")]
        self.optimizers = (
            torch.optim.AdamW(self.rest, plan.rate, weight_decay=plan.decay),
            torch.optim.SparseAdam(table, plan.table_rate),
        )
        self.tokenizer = lessons.vocabulary.tokenizer()
        self.held_rows = encode(self.tokenizer, [lessons.texts[i].text for i in lessons.held])
        self.mean = torch.from_numpy(lessons.mean)
        self.spread = float(torch.from_numpy(lessons.targets[lessons.train]).var(0).mean())

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from what ``save`` wrote; a pass that was cut off is not repeated."""
        self.student.load_state_dict(state["student"])
        for optimizer, kept in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        self.progress = Progress(state["spent"], state["passes"] + 1, state["seen"], 0.0, state["history"])

    def save(self) -> None:
        """Judges the student on the held rows and writes the checkpoint, whole or not at all."""
        at = self.progress
        figures = {"seconds": round(at.seconds), "texts": at.texts, "loss": round(at.loss, 4)}
        at.history.append(figures | judge(self.student, self.lessons, self.held_rows))
        say(f"held {at.history[-1]}")
        state = {
            "rows": self.lessons.vocabulary.rows,
            "mean": self.mean,
            "student": self.student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "spent": at.seconds,
            "passes": at.passes,
            "seen": at.texts,
            "history": at.history,
        }
        part = self.path.with_suffix(".part")
        torch.save(state, part)
        part.replace(self.path)

    def step(self, ids: Tensor, mask: Tensor, target: Tensor) -> float:
        """One batch; returns its loss."""
        share = rate_at(self.progress.seconds / (self.plan.minutes * 60), self.plan.warmup)
        for optimizer, peak in zip(self.optimizers, (self.plan.rate, self.plan.table_rate), strict=True):
            optimizer.param_groups[0]["lr"] = peak * share
            optimizer.zero_grad()
        z = self.student(ids, mask)
        away = 1 - centred_cosine(z, target, self.mean).mean()
        loss = away + self.plan.mse * nn.functional.mse_loss(z, target) / self.spread
        loss.backward()
        nn.utils.clip_grad_norm_(self.rest, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.item())

    def run(self) -> None:
        """Trains until the time is used up; the checkpoint is written every ``save_minutes``."""
        at, budget = self.progress, self.plan.minutes * 60
        started = saved = told = time.monotonic()
        seconds_before, texts_before = at.seconds, at.texts
        self.save()
        while at.seconds < budget:
            for ids, mask, target in one_pass(self.lessons, self.tokenizer, self.plan.blend, at.passes):
                now = time.monotonic()
                at.seconds = seconds_before + now - started
                if at.seconds >= budget:
                    break
                loss = self.step(ids, mask, target)
                self.threads.note(ids.numel(), time.monotonic() - now)
                at.loss = 0.99 * at.loss + 0.01 * loss if at.loss else loss
                at.texts += len(ids)
                if now - told > 30:
                    told = now
                    pace, left = (at.texts - texts_before) / (now - started), (budget - at.seconds) / 60
                    say(f"pass {at.passes} loss {at.loss:.4f} {pace:.0f} texts/s {left:.1f} min left")
                if now - saved > self.plan.save_minutes * 60:
                    saved = now
                    self.save()
            else:
                at.passes += 1
        self.save()


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("-o", "--out", type=Path, default=Path("models/base"))
    parser.add_argument("--cache", type=Path, default=CHECKPOINTS, help="teacher vectors and checkpoint")
    parser.add_argument("--minutes", type=float, default=40.0, help="wall clock for the training itself")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the cache")
    given = parser.parse_args(arguments)
    plan = Plan(given.minutes)
    torch.set_num_threads(given.threads)
    torch.manual_seed(plan.blend.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.cache / STUDENT
    state = torch.load(path, weights_only=True) if given.resume and path.exists() else None
    teacher = Teacher.load()
    lessons = prepare(given.data, given.out, given.cache, teacher, state["rows"] if state else None)
    chance = random.Random(plan.blend.seed)  # noqa: S311 - repeatable, not secret
    if state is not None:
        student = start_student(teacher.file, lessons.vocabulary, range(LAYERS))  # only its shape matters
    else:
        some = chance.sample(lessons.train, min(3_000, len(lessons.train)))
        texts = [lessons.texts[i].text for i in some]
        student, reached = choose_layers(teacher.file, lessons.vocabulary, texts, lessons.targets[some])
        say(f"centred cosine before training, by layers: {reached}")
    training = Training(student, lessons, plan, path, given.threads)
    if state is not None:
        training.restore(state)
    training.run()


if __name__ == "__main__":
    main()
