"""What needs torch: the student and its graph agree, the contrastive loss is the published one."""

import math

import numpy as np
import onnxruntime as ort
import pytest

pytestmark = pytest.mark.slow


def test_the_graph_computes_what_the_student_computes() -> None:
    import torch

    from export.base import encoder_weights
    from export.bert import Dims
    from export.graph import encoder_graph
    from export.student import Student

    torch.manual_seed(0)
    dims = Dims(50, 16, 24, 2, 12, 48, 1e-12)
    student = Student(dims).eval()
    mean = torch.randn(24) * 0.1
    ids = torch.tensor([[0, 5, 9, 2], [0, 7, 2, 1]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    with torch.inference_mode():
        expected = torch.nn.functional.normalize(student(ids, mask) - mean, dim=1).numpy()
    weights = encoder_weights(student.state_dict(), mean, heads=12)
    for quantized, least in ((False, 0.99999), (True, 0.98)):
        session = ort.InferenceSession(encoder_graph(weights, quantized=quantized).SerializeToString())
        feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
        found = session.run(["sentence_embedding"], feed)[0]
        assert (found * expected).sum(1).min() > least


def test_the_contrastive_loss_by_hand() -> None:
    import torch

    from export.contrast import contrastive_loss

    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    group = torch.tensor([0, 0, 1])
    # Row 0: partner at cosine 0, other at 1. Row 1: partner at 0, other at 0. Row 2 has no partner.
    row0 = -math.log(1 / (1 + math.exp(1 / 0.5)))
    row1 = -math.log(1 / 2)
    assert float(contrastive_loss(z, group, 0.5)) == pytest.approx((row0 + row1) / 2, abs=1e-5)


def test_estimates_keep_their_order_and_their_gradients() -> None:
    import torch

    from export.bert import Dims
    from export.contrast import estimates
    from export.student import Student

    torch.manual_seed(0)
    student = Student(Dims(50, 16, 24, 1, 12, 48, 1e-12))
    rows = [[0, 5, 6, 7, 8, 2], [0, 9, 2], [0, 5, 2], [0, 7, 8, 2]]
    together = estimates(student, rows, chunk=2)
    alone = torch.cat([estimates(student, [row]) for row in rows])
    np.testing.assert_allclose(together.detach().numpy(), alone.detach().numpy(), atol=1e-5)
    together.sum().backward()
    assert student.projection.weight.grad is not None
