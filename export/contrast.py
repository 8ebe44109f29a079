"""Sharpens the distilled student: ``python -m export.contrast --data DIR``, after export.distill.

A teacher's space puts "do I get paid leave" beside "do I have to take paid leave". The student is taught
on groups of texts that ask the same and on near misses that do not, by the supervised contrastive loss of
Khosla et al. (2020, equation 2), while half of each step goes on distilling, so that nothing else is lost.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from edge.normaliser import Normaliser
from export.bert import pad
from export.distill import CHECKPOINTS, STUDENT, judge, rate_at
from export.fold import write_normaliser
from export.groups import contrast_batches, gather_groups
from export.lessons import Blend, Lessons, one_pass, prepare
from export.student import Student, centred_cosine, encode, start_student
from export.teacher import Teacher, say
from export.vocabulary import PAD

SHARPENED = "sharpened.pt"
RATE, TABLE_RATE, WARMUP = 1.5e-4, 2e-4, 0.05
TEMPERATURE = 0.1
WEIGHT = 0.3


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
    """The student's estimates [rows, width] with their gradients, in chunks of like length.

    One long text among a hundred short ones would otherwise pad them all.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    parts = [
        student(*pad([rows[i] for i in order[at : at + chunk]], PAD)) for at in range(0, len(order), chunk)
    ]
    places = torch.tensor(order).argsort()
    return torch.cat(parts)[places]


def sharpen(student: Student, lessons: Lessons, data: Path, normaliser: Normaliser, minutes: float) -> None:
    """Train for ``minutes`` of wall clock."""
    tokenizer = lessons.vocabulary.tokenizer()
    mean = torch.from_numpy(lessons.mean)
    table = list(student.bert.words.parameters())
    rest = [p for name, p in student.named_parameters() if not name.startswith("bert.words.")]
    optimizers = (torch.optim.AdamW(rest, RATE, weight_decay=0.01), torch.optim.SparseAdam(table, TABLE_RATE))
    blend = Blend()
    batches = contrast_batches(gather_groups(data, normaliser), blend.seed)
    start = told = time.monotonic()
    smooth = [0.0, 0.0]
    spent, steps, number = 0.0, 0, 1000
    while spent < minutes * 60:
        number += 1
        for ids, mask, target in one_pass(lessons, tokenizer, blend, number):
            spent = time.monotonic() - start
            if spent >= minutes * 60:
                break
            share = rate_at(spent / (minutes * 60), WARMUP)
            for optimizer, peak in zip(optimizers, (RATE, TABLE_RATE), strict=True):
                optimizer.param_groups[0]["lr"] = peak * share
                optimizer.zero_grad()
            texts, numbers = next(batches)
            z = estimates(student, encode(tokenizer, texts)) - mean
            contrast = contrastive_loss(nn.functional.normalize(z, dim=1), torch.tensor(numbers))
            distil = (1 - centred_cosine(student(ids, mask), target, mean)).mean()
            (distil + WEIGHT * contrast).backward()
            nn.utils.clip_grad_norm_(rest, 1.0)
            for optimizer in optimizers:
                optimizer.step()
            steps += 1
            losses = (distil.item(), contrast.item())
            keep = 0.98 if steps > 1 else 0.0
            smooth = [keep * old + (1 - keep) * new for old, new in zip(smooth, losses, strict=True)]
            if time.monotonic() - told > 30:
                told = time.monotonic()
                left = minutes - spent / 60
                say(f"step {steps} distil {smooth[0]:.4f} contrast {smooth[1]:.4f} {left:.1f} min left")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("-o", "--out", type=Path, default=Path("models/base"))
    parser.add_argument("--cache", type=Path, default=CHECKPOINTS, help="teacher vectors and checkpoint")
    parser.add_argument("--minutes", type=float, default=12.0, help="wall clock for the training itself")
    given = parser.parse_args(arguments)
    torch.set_num_threads(2)
    torch.manual_seed(Blend().seed)
    state = torch.load(given.cache / STUDENT, weights_only=True)
    teacher = Teacher.load()
    lessons = prepare(given.data, given.out, given.cache, teacher, state["rows"])
    student = start_student(teacher.file, lessons.vocabulary, (0, 4, 8, 11))
    student.load_state_dict(state["student"])
    del teacher
    held = encode(lessons.vocabulary.tokenizer(), [lessons.texts[i].text for i in lessons.held])
    say(f"held {judge(student, lessons, held)}")
    sharpen(student, lessons, given.data, write_normaliser(given.out / "normaliser.json"), given.minutes)
    after = judge(student, lessons, held)
    say(f"held {after}")
    state["student"] = student.state_dict()
    state["history"].append({"seconds": round(state["spent"] + given.minutes * 60)} | after)
    state["sharpened_minutes"] = given.minutes
    torch.save(state, given.cache / SHARPENED)


if __name__ == "__main__":
    main()
