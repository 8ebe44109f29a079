"""Distils the bilingual base: ``python -m export.distill --data DIR -o models/base``."""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

import torch

from export.lessons import prepare
from export.student import EXITS, choose_layers, start_student
from export.teacher import Teacher, say
from export.training import CHECKPOINTS, Plan, Training

STUDENT = "student.pt"
LAYERS = 4
STEPS = 5_200  # three passes


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("-o", "--out", type=Path, default=Path("models/base"))
    parser.add_argument("--cache", type=Path, default=CHECKPOINTS, help="teacher vectors and checkpoint")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", default="", help="leave out the sets whose path begins with this")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the cache")
    given = parser.parse_args(arguments)
    plan = Plan(given.steps)
    torch.set_num_threads(given.threads)
    torch.manual_seed(plan.blend.seed)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.cache / STUDENT
    state = torch.load(path, weights_only=True) if given.resume and path.exists() else None
    teacher = Teacher.load()
    rows = state["rows"] if state else None
    lessons = prepare(given.data, given.out, given.cache, teacher, rows, without=given.without)
    chance = random.Random(plan.blend.seed)  # noqa: S311 - repeatable, not secret
    if state is not None:
        student = start_student(teacher.file, lessons.vocabulary, range(LAYERS), EXITS)  # its shape only
    else:
        some = chance.sample(lessons.train, min(3_000, len(lessons.train)))
        texts = [lessons.texts[i].text for i in some]
        student, reached = choose_layers(teacher.file, lessons.vocabulary, texts, lessons.targets[some])
        say(f"centred cosine before training, by layers: {reached}")
    training = Training(student, lessons, plan, path, None, given.threads)
    if state is not None:
        training.restore(state)
    training.run()


if __name__ == "__main__":
    main()
