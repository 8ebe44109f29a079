"""The cut vocabulary and the tokenizer made from it."""

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from export.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary, gb2312_han, prune, restore

# As in the teacher: specials first, then pieces with log probabilities; the longer, the likelier.
TEACHER = [
    *((special, 0.0) for special in SPECIALS),
    *((char, -9.0) for char in "▁abcdefghijklmnopqrstuvwxyz0123456789?!,.<>/#😀我想退货快递"),
    *(("▁Hello", -5.0), ("▁hello", -5.0), ("▁order", -6.0), ("我想", -6.0), ("退货", -6.0), ("▁never", -6.0)),
]
ROW = {piece: i for i, (piece, _) in enumerate(TEACHER)}


@pytest.fixture
def vocabulary() -> Vocabulary:
    counts = {ROW["▁hello"]: 9, ROW["▁order"]: 5, ROW["我想"]: 8, ROW["退货"]: 7, ROW["😀"]: 1, BOS: 99}
    return prune(TEACHER, counts, size=64)


def test_ids_are_compact_and_lead_back_to_the_teacher(vocabulary: Vocabulary) -> None:
    assert vocabulary.rows[:4] == (BOS, PAD, EOS, UNK)
    assert len(vocabulary.rows) == len(vocabulary.pieces) == len(set(vocabulary.rows))
    assert [TEACHER[row][0] for row in vocabulary.rows] == [piece for piece, _ in vocabulary.pieces]
    tokenizer = vocabulary.tokenizer()
    assert all(tokenizer.token_to_id(piece) == i for i, (piece, _) in enumerate(vocabulary.pieces))


def test_counted_pieces_stay_and_unseen_ones_go(vocabulary: Vocabulary) -> None:
    kept = {piece for piece, _ in vocabulary.pieces}
    assert {"▁hello", "▁order", "我想", "退货", "z", "货"} <= kept
    assert not {"▁Hello", "▁never"} & kept


def test_the_size_is_a_ceiling_for_counted_pieces() -> None:
    must = len(prune(TEACHER, {}, size=0).rows)
    counts = {ROW["▁hello"]: 9, ROW["▁order"]: 5}
    assert len(prune(TEACHER, counts, size=must + 1).rows) == must + 1


@pytest.mark.parametrize("text", ["hello order #1024?", "我想退货", "hello,我想退货!", "快递 order 42"])
def test_a_text_comes_back_from_its_ids(vocabulary: Vocabulary, text: str) -> None:
    tokenizer = vocabulary.tokenizer()
    ids = tokenizer.encode(text).ids
    assert (ids[0], ids[-1]) == (BOS, EOS)
    assert UNK not in ids
    pieces = [vocabulary.pieces[i][0] for i in ids[1:-1]]
    assert "".join(pieces).replace("▁", " ").strip() == text


def test_an_emoji_that_was_counted_is_read_and_another_is_unknown(vocabulary: Vocabulary) -> None:
    tokenizer = vocabulary.tokenizer()
    assert UNK not in tokenizer.encode("hello 😀").ids
    assert UNK in tokenizer.encode("hello 🦜").ids


def test_names_of_specials_in_a_text_are_only_text(vocabulary: Vocabulary) -> None:
    ids = vocabulary.tokenizer().encode("hello </s> <s>").ids
    assert ids.count(EOS) == ids.count(BOS) == 1


def test_case_and_width_are_folded(vocabulary: Vocabulary) -> None:
    tokenizer = vocabulary.tokenizer()
    assert tokenizer.encode("ＨＥＬＬＯ").ids == tokenizer.encode("hello").ids


def test_the_file_is_of_kinds_that_javascript_reads(vocabulary: Vocabulary, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    vocabulary.tokenizer().save(str(path))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["model"]["type"] == "Unigram"
    assert found["model"]["unk_id"] == UNK
    assert found["pre_tokenizer"]["type"] == "Metaspace"
    assert found["post_processor"]["type"] == "TemplateProcessing"
    assert found["truncation"] is None
    assert found["padding"] is None
    again = Tokenizer.from_file(str(path))
    assert again.encode("hello 我想退货").ids == vocabulary.tokenizer().encode("hello 我想退货").ids


def test_a_vocabulary_is_restored_from_its_rows(vocabulary: Vocabulary) -> None:
    assert restore(TEACHER, vocabulary.rows) == vocabulary


def test_gb2312_has_its_6763_characters() -> None:
    han = gb2312_han()
    assert len(han) == len(set(han)) == 6_763
    assert {"啊", "齄", "我", "货"} <= set(han)
