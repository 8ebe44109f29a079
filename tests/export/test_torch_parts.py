"""What needs torch: student and graph agree, the loss is the published one, a training goes on exactly."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime as ort
import pytest
from tiny_base import few_pools, vocabulary

if TYPE_CHECKING:
    from export.groups import Groups
    from export.lessons import Lessons
    from export.student import Student
    from export.training import Training

pytestmark = pytest.mark.slow

EXITS, WIDTH = (0, 1, 3), 24


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def tiny_student(words: int = 50, seed: int = 0) -> "Student":
    """A student with gates that are far from zero."""
    import torch

    from export.bert import Dims
    from export.student import Student

    torch.manual_seed(seed)
    student = Student(Dims(words, 64, WIDTH, EXITS[-1], 12, 48, 1e-12), EXITS)
    with torch.no_grad():
        student.gates.normal_(0, 0.3)
    return student


# --- the graph -------------------------------------------------------------------------------------


def test_the_graph_computes_what_the_student_computes_at_every_exit() -> None:
    import torch

    from export.base import encoder_weights
    from export.graph import encoder_graph

    student = tiny_student().eval()
    mean = torch.randn(WIDTH) * 0.1
    ids = torch.tensor([[0, 5, 9, 2], [0, 7, 2, 1]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.inference_mode():
        estimates = torch.stack(student(ids, mask)) - mean
        expected = torch.nn.functional.normalize(estimates, dim=2).numpy()
    assert np.abs(expected[0] - expected[-1]).max() > 0.01
    weights = encoder_weights(student.state_dict(), mean, EXITS, heads=12)
    assert [exit_.layer for exit_ in weights.exits] == list(EXITS)
    for quantized, least in ((False, 0.99999), (True, 0.98)):
        session = ort.InferenceSession(encoder_graph(weights, quantized=quantized).SerializeToString())
        feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        found = np.stack(session.run(["exit_0", "exit_1", "sentence_embedding"], feed))
        assert (found * expected).sum(2).min() > least


def test_a_gate_of_zeros_is_the_plain_mean() -> None:
    import torch

    from export.bert import mean_pool
    from export.student import gated_pool

    state, mask = torch.randn(2, 4, 6), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    found = gated_pool(state, mask, torch.zeros(6))
    torch.testing.assert_close(found, mean_pool(state, mask))
    picked = gated_pool(state, mask, torch.eye(6)[0] * 1e4)
    torch.testing.assert_close(picked[1], state[1, state[1, :2, 0].argmax()])


def test_the_exits_start_from_the_ridge_regression_of_the_targets() -> None:
    import torch

    from export.student import run, start_exits

    student = tiny_student().eval()
    chance = np.random.default_rng(0)
    rows = [[0, *chance.integers(3, 50, length).tolist(), 2] for length in chance.integers(1, 9, 200)]
    targets = torch.from_numpy(chance.standard_normal((len(rows), WIDTH)).astype(np.float32))
    start_exits(student, rows, targets)
    for projection, x, z in zip(
        student.projections, run(student, rows, pooled=True), run(student, rows), strict=True
    ):
        # Of a ridge regression with an offset the means agree, and no error is left in its own direction.
        torch.testing.assert_close(z.mean(0), targets.mean(0), atol=1e-4, rtol=0)
        torch.testing.assert_close(x @ projection.weight.T + projection.bias, z, atol=1e-4, rtol=0)
        assert ((z - targets) ** 2).mean() < targets.var(0).mean()


# --- losses ----------------------------------------------------------------------------------------


def test_the_contrastive_loss_by_hand() -> None:
    import torch

    from export.training import contrastive_loss

    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    group = torch.tensor([0, 0, 1])
    # Row 0: partner at cosine 0, other at 1. Row 1: partner at 0, other at 0. Row 2 has no partner.
    row0 = -math.log(1 / (1 + math.exp(1 / 0.5)))
    row1 = -math.log(1 / 2)
    assert float(contrastive_loss(z, group, 0.5)) == pytest.approx((row0 + row1) / 2, abs=1e-5)


def test_the_contrastive_loss_of_several_partners_by_hand() -> None:
    import torch

    from export.training import contrastive_loss

    chance = np.random.default_rng(0)
    z = chance.standard_normal((6, 5))
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    group, losses = [0, 0, 0, 1, 1, 2], []
    for i in range(5):
        others = [k for k in range(6) if k != i]
        total = sum(math.exp(z[i] @ z[k] / 0.2) for k in others)
        partners = [k for k in others if group[k] == group[i]]
        losses.append(-sum(math.log(math.exp(z[i] @ z[k] / 0.2) / total) for k in partners) / len(partners))
    found = contrastive_loss(torch.from_numpy(z), torch.tensor(group), 0.2)
    assert float(found) == pytest.approx(sum(losses) / 5, abs=1e-6)


def test_estimates_keep_their_order_and_their_gradients() -> None:
    import torch

    from export.training import estimates

    student = tiny_student()
    rows = [[0, 5, 6, 7, 8, 2], [0, 9, 2], [0, 5, 2], [0, 7, 8, 2]]
    together = estimates(student, rows, chunk=2)
    assert together.shape == (len(EXITS), 4, WIDTH)
    alone = torch.cat([estimates(student, [row]) for row in rows], dim=1)
    np.testing.assert_allclose(together.detach().numpy(), alone.detach().numpy(), atol=1e-5)
    together.sum().backward()
    assert student.gates.grad is not None
    assert student.gates.grad.abs().sum(1).min() > 0
    assert all(projection.weight.grad is not None for projection in student.projections)


def test_run_gives_the_rows_back_in_their_order() -> None:
    import torch

    from export.student import run

    student = tiny_student().eval()
    rows = [[0, 5, 6, 7, 8, 2], [0, 9, 2], [0, 5, 2], [0, 7, 8, 2]]
    alone = torch.cat([run(student, [row]) for row in rows], dim=1)
    torch.testing.assert_close(run(student, rows, batch=3), alone, atol=1e-5, rtol=0)


# --- a training ------------------------------------------------------------------------------------


def lessons() -> "Lessons":
    """Forty texts of the pools with random targets; a pass is shorter than the training."""
    from edge.normaliser import Lang, Normaliser
    from export.corpus import Text
    from export.lessons import Lessons

    normaliser = Normaliser()
    texts = [normaliser.reading(text) for text in few_pools().out_of_scope]
    by_lang = {lang: [t for t in texts if normaliser.lang(t) is lang and len(t) < 60][:24] for lang in Lang}
    found = [Text(text, lang, "pools/out_of_scope.jsonl") for lang in Lang for text in by_lang[lang]]
    targets = np.random.default_rng(0).standard_normal((len(found), WIDTH)).astype(np.float32)
    targets /= np.linalg.norm(targets, axis=1, keepdims=True)
    held = list(range(0, len(found), 6))
    train = sorted(set(range(len(found))) - set(held))
    return Lessons(found, targets, targets[train].mean(0), vocabulary(), train, held)


def groups() -> "Groups":
    from export.groups import Family, Groups

    def family(count: int, size: int, name: str) -> Family:
        return Family(tuple(tuple(f"{name} {i} way {j}" for j in range(size)) for i in range(count)))

    own = tuple(family(2, 3, f"paper {n}") for n in range(4))
    return Groups(own, (family(20, 4, "music"), family(18, 4, "letter")), family(15, 2, "river"))


class Killed(Exception):
    pass


def training(path: Path, steps: int, contrast: bool) -> "Training":
    from export.lessons import Blend
    from export.training import Plan, Training

    plan = Plan(
        steps,
        rate=1e-2,
        table_rate=1e-2,
        contrast=0.3 if contrast else 0.0,
        blend=Blend(batch=16),
        save_minutes=0,
    )
    student = tiny_student(len(vocabulary().pieces))
    return Training(student, lessons(), plan, path, groups() if contrast else None, 1)


def state_of(one: "Training") -> dict[str, Any]:
    return dict(one.student.state_dict()) | {
        f"optimizer {place} {number} {name}": value
        for place, optimizer in enumerate(one.optimizers)
        for number, kept in optimizer.state_dict()["state"].items()
        for name, value in kept.items()
    }


@pytest.mark.parametrize("contrast", [False, True])
def test_a_killed_training_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contrast: bool
) -> None:
    import torch

    whole = training(tmp_path / "whole.pt", 6, contrast)
    start = {name: value.clone() for name, value in whole.student.state_dict().items()}
    whole.run()
    assert whole.done == 6

    killed = training(tmp_path / "killed.pt", 6, contrast)
    step = killed.step

    def until_three(*given: Any) -> torch.Tensor:
        if killed.done == 3:
            raise Killed
        return step(*given)

    monkeypatch.setattr(killed, "step", until_three)
    with pytest.raises(Killed):
        killed.run()
    again = training(tmp_path / "killed.pt", 6, contrast)
    again.restore(torch.load(tmp_path / "killed.pt", weights_only=True))
    assert again.done == 3
    again.run()
    assert again.done == 6
    expected, found = state_of(whole), state_of(again)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)), name
    assert any(not torch.equal(start[name], whole.student.state_dict()[name]) for name in start)
    assert [row["steps"] for row in again.history][-1] == 6
    assert {row["steps"]: row["en"] for row in again.history} == {
        row["steps"]: row["en"] for row in whole.history
    }
    assert [path.suffix for path in tmp_path.iterdir()] == [".pt", ".pt"]


def test_a_training_lowers_its_loss_and_moves_every_exit(tmp_path: Path) -> None:
    one = training(tmp_path / "one.pt", 40, contrast=True)
    start = {name: value.clone() for name, value in one.student.state_dict().items()}
    one.run()
    first, last = one.history[0], one.history[-1]
    assert last["distil"] < first["distil"]
    moved = {name for name, value in one.student.state_dict().items() if not start[name].equal(value)}
    assert moved == set(start)
    assert not start["gates"].eq(one.student.state_dict()["gates"]).all(1).any()


def test_a_checkpoint_becomes_a_base_model(tmp_path: Path) -> None:
    """What ``export.base`` reads of a checkpoint is in it."""
    import torch

    from export.base import encoder_weights
    from export.weights import read_weights

    one = training(tmp_path / "one.pt", 1, contrast=False)
    one.run()
    state = torch.load(tmp_path / "one.pt", weights_only=True)
    weights = encoder_weights(state["student"], state["mean"], state["exits"])
    assert tuple(exit_.layer for exit_ in weights.exits) == EXITS
    assert state["rows"] == vocabulary().rows
    from export.graph import encoder_graph

    assert len(read_weights(encoder_graph(weights, quantized=True), 12).layers) == EXITS[-1]
