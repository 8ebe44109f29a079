"""Distils the bilingual base student: ``python -m export.distill --data DIR -o models/base --minutes 40``."""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from export.lessons import Blend, Lessons, one_pass, prepare
from export.student import Student, centred_cosine, choose_layers, encode, run
from export.teacher import Teacher, say

CHECKPOINTS = Path(".checkpoints/base")
STUDENT = "student.pt"


@dataclass(frozen=True, slots=True)
class Plan:
    """How to train. Rates fall along a cosine over ``minutes`` of wall clock, whatever the machine manages."""

    minutes: float
    blend: Blend = Blend()
    rate: float = 3e-4
    table_rate: float = 4e-4
    warmup: float = 0.03
    decay: float = 0.01
    mse: float = 0.5
    save_minutes: float = 5.0


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


def train(student: Student, lessons: Lessons, plan: Plan, path: Path, state: dict[str, Any] | None) -> None:
    """Trains until the time is used up, from ``state`` on if given; ``path`` is written every ``save_minutes``."""
    table = list(student.bert.words.parameters())
    rest = [p for name, p in student.named_parameters() if not name.startswith("bert.words.")]
    optimizers = (
        torch.optim.AdamW(rest, plan.rate, weight_decay=plan.decay),
        torch.optim.SparseAdam(table, plan.table_rate),
    )
    spent, passes, seen, history = 0.0, 0, 0, list[dict[str, Any]]()
    if state is not None:
        student.load_state_dict(state["student"])
        for optimizer, kept in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        spent, passes, seen, history = state["spent"], state["passes"] + 1, state["seen"], state["history"]
    tokenizer = lessons.vocabulary.tokenizer()
    held_rows = encode(tokenizer, [lessons.texts[i].text for i in lessons.held])
    mean = torch.from_numpy(lessons.mean)
    spread = float(torch.from_numpy(lessons.targets[lessons.train]).var(0).mean())
    budget = plan.minutes * 60
    started = saved = told = time.monotonic()
    before, seen_before, smooth = spent, seen, 0.0

    def save() -> None:
        history.append(
            {"seconds": round(spent), "texts": seen, "loss": round(smooth, 4)}
            | judge(student, lessons, held_rows)
        )
        say(f"held {history[-1]}")
        found = {
            "rows": lessons.vocabulary.rows,
            "mean": mean,
            "student": student.state_dict(),
            "optimizers": [o.state_dict() for o in optimizers],
            "spent": spent,
            "passes": passes,
            "seen": seen,
            "history": history,
        }
        part = path.with_suffix(".part")
        torch.save(found, part)
        part.replace(path)

    save()
    while spent < budget:
        for ids, mask, target in one_pass(lessons, tokenizer, plan.blend, passes):
            spent = before + time.monotonic() - started
            if spent >= budget:
                break
            share = rate_at(spent / budget, plan.warmup)
            for optimizer, peak in zip(optimizers, (plan.rate, plan.table_rate), strict=True):
                optimizer.param_groups[0]["lr"] = peak * share
                optimizer.zero_grad()
            z = student(ids, mask)
            loss = (1 - centred_cosine(z, target, mean)).mean() + plan.mse * nn.functional.mse_loss(
                z, target
            ) / spread
            loss.backward()
            nn.utils.clip_grad_norm_(rest, 1.0)
            for optimizer in optimizers:
                optimizer.step()
            seen += len(ids)
            smooth = loss.item() if not smooth else 0.99 * smooth + 0.01 * loss.item()
            now = time.monotonic()
            if now - told > 30:
                told = now
                pace = (seen - seen_before) / (now - started)
                say(
                    f"pass {passes} loss {smooth:.4f} {pace:.0f} texts/s {(budget - spent) / 60:.1f} min left"
                )
            if now - saved > plan.save_minutes * 60:
                saved = now
                save()
        else:
            passes += 1
    save()


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
    some = random.Random(plan.blend.seed).sample(lessons.train, min(3_000, len(lessons.train)))
    texts = [lessons.texts[i].text for i in some]
    student, layers = choose_layers(teacher.file, lessons.vocabulary, texts, lessons.targets[some])
    say(f"centred cosine before training, by layers: {layers}")
    del teacher
    train(student, lessons, plan, path, state)


if __name__ == "__main__":
    main()
