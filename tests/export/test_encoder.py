"""The base student from its folder: embeddings of every exit in the order of the texts, or a clear refusal."""

import json
from pathlib import Path

import numpy as np
import pytest
from tiny_base import base_weights, vocabulary, write_base
from tiny_encoder import EXITS, reference

from edge.bundle import ROUTER_FILE
from edge.errors import BundleError
from export.encoder import Encoder

TEXTS = [
    "when do you open",
    "几点开门",
    "a",
    "how do i return this phone that i bought here last week",
    "營業時間",
]


def test_every_exit_embeds_every_text_in_order(tiny_base: Path) -> None:
    encoder = Encoder(tiny_base)
    assert encoder.exits == EXITS
    found = encoder.embed(TEXTS, batch=2)
    assert found.shape == (len(EXITS), len(TEXTS), 48)
    assert found.dtype == np.float32
    alone = np.concatenate([encoder.embed([text]) for text in TEXTS], axis=1)
    np.testing.assert_allclose(found, alone, atol=1e-5)
    for place, text in enumerate(TEXTS):
        ids = vocabulary().tokenizer().encode(encoder.normaliser.reading(text)).ids
        assert (found[:, place] * reference(base_weights(), ids)).sum(1).min() > 0.97


def test_texts_are_read_as_the_normaliser_reads_them(tiny_base: Path) -> None:
    encoder = Encoder(tiny_base)
    one, two = encoder.embed(["營業時間", " ＯＰＥＮ "]), encoder.embed(["营业时间", "open"])
    np.testing.assert_array_equal(one, two)


def test_a_long_text_is_cut_with_its_end_kept(tiny_base: Path) -> None:
    encoder = Encoder(tiny_base)
    long = "open " * 5_000
    ids = encoder.ids(long)
    assert len(ids) == encoder.max_tokens
    assert (ids[0], ids[-1]) == (0, 2)
    assert np.isfinite(encoder.embed([long, ""])).all()


def test_tokens_are_counted_without_a_limit(tiny_base: Path) -> None:
    assert Encoder(tiny_base).token_count("open " * 200) == 200


def test_nothing_cannot_be_embedded(tiny_base: Path) -> None:
    with pytest.raises(ValueError, match="nothing to embed"):
        Encoder(tiny_base).embed([])


def test_its_weights_make_the_same_encoder_again(tiny_base: Path) -> None:
    encoder = Encoder(tiny_base)
    again = encoder.tuned(encoder.weights())
    np.testing.assert_allclose(again.embed(TEXTS), encoder.embed(TEXTS), atol=1e-3)
    assert again.weights() is again.weights()


def test_an_encoder_with_other_weights_leaves_the_first_alone(tiny_base: Path) -> None:
    encoder = Encoder(tiny_base)
    before = encoder.embed(TEXTS)
    other = encoder.tuned(base_weights())
    weights = other.weights()
    assert weights is base_weights()
    np.testing.assert_array_equal(encoder.embed(TEXTS), before)
    assert encoder.weights() is not weights


@pytest.mark.parametrize("name", [ROUTER_FILE, "tokenizer.json", "normaliser.json", "config.json"])
def test_a_base_that_lacks_a_file_is_refused(tmp_path: Path, name: str) -> None:
    (write_base(tmp_path) / name).unlink()
    with pytest.raises(BundleError, match=f"is no base student: it lacks {name}"):
        Encoder(tmp_path)


def test_a_base_for_another_normaliser_is_refused(tmp_path: Path) -> None:
    path = write_base(tmp_path) / "normaliser.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | {"version": 99}), "utf-8")
    with pytest.raises(BundleError, match="normaliser version 99"):
        Encoder(tmp_path)


def test_a_base_without_exits_is_refused(tmp_path: Path) -> None:
    """The format of before there were exits."""
    path = write_base(tmp_path) / "config.json"
    config = json.loads(path.read_text("utf-8"))
    del config["exits"]
    path.write_text(json.dumps(config), "utf-8")
    with pytest.raises(BundleError, match="exits"):
        _ = Encoder(tmp_path).exits
