"""Sharpens the distilled student: ``python -m export.contrast --data DIR``, after export.distill.

A teacher's space puts "do I get paid leave" beside "do I have to take paid leave". The student is taught
on groups of texts that ask the same and on near misses that do not, by the supervised contrastive loss of
Khosla et al. (2020, equation 2), while half of each step goes on distilling, so that nothing else is lost.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from export.distill import LAYERS, STUDENT
from export.fold import write_normaliser
from export.groups import gather_groups
from export.lessons import prepare
from export.student import EXITS, start_student
from export.teacher import Teacher
from export.training import CHECKPOINTS, Plan, Training

SHARPENED = "sharpened.pt"
STEPS = 1_500


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("-o", "--out", type=Path, default=Path("models/base"))
    parser.add_argument("--cache", type=Path, default=CHECKPOINTS, help="teacher vectors and checkpoint")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", default="", help="leave out the sets whose path begins with this")
    parser.add_argument("--resume", action="store_true", help="go on from its own checkpoint in the cache")
    given = parser.parse_args(arguments)
    plan = Plan(given.steps, rate=1.5e-4, table_rate=2e-4, warmup=0.05, mse=0.0, contrast=0.3)
    torch.set_num_threads(given.threads)
    torch.manual_seed(plan.blend.seed)
    goes_on = given.resume and (given.cache / SHARPENED).exists()
    state = torch.load(given.cache / (SHARPENED if goes_on else STUDENT), weights_only=True)
    teacher = Teacher.load()
    lessons = prepare(given.data, given.out, given.cache, teacher, state["rows"], without=given.without)
    student = start_student(teacher.file, lessons.vocabulary, range(LAYERS), EXITS)
    student.load_state_dict(state["student"])
    del teacher
    normaliser = write_normaliser(given.out / "normaliser.json")
    groups = gather_groups(given.data, normaliser, without=given.without)
    training = Training(student, lessons, plan, given.cache / SHARPENED, groups, given.threads)
    if goes_on:
        training.restore(state)
    training.run()


if __name__ == "__main__":
    main()
