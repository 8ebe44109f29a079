"""The student's vocabulary: the teacher's Unigram pieces, cut to what a desk reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
SIZE = 16_000
_NEVER = -100.0
# Decimals of a score. The teacher's seventeen digits take a third of the file; with four, 95,000 texts of the
# public sets give the same pieces.
_PLACES = 4
_MARK = "▁"  # SentencePiece's sign for a space


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Student id ``i`` is piece ``pieces[i]``, taken from teacher row ``rows[i]``."""

    pieces: tuple[tuple[str, float], ...]
    rows: tuple[int, ...]

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the student, without truncation."""
        return unigram_tokenizer(self.pieces, UNK, lowercase=True)


def unigram_tokenizer(pieces: Sequence[tuple[str, float]], unk: int, *, lowercase: bool = False) -> Tokenizer:
    """``<s> text </s>`` over Unigram pieces and Metaspace: kinds that JavaScript tokenizers read too."""
    tokenizer = Tokenizer(models.Unigram(list(pieces), unk_id=unk, byte_fallback=False))
    steps: list[normalizers.Normalizer] = [normalizers.NFKC()]
    if lowercase:
        steps.append(normalizers.Lowercase())
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=_MARK, prepend_scheme="always")
    ids = {token: tokenizer.token_to_id(token) for token in ("<s>", "</s>")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=list(ids.items())
    )
    return tokenizer


def gb2312_han() -> list[str]:
    """The 6,763 Han characters of GB 2312, levels 1 and 2 (rows 16 to 87)."""
    found: list[str] = []
    for high in range(0xB0, 0xF8):
        for low in range(0xA1, 0xFF):
            try:
                found.append(bytes((high, low)).decode("gb2312"))
            except UnicodeDecodeError:  # five empty cells at the end of row 55
                continue
    return found


def prune(teacher: Sequence[tuple[str, float]], counts: Mapping[int, int], size: int = SIZE) -> Vocabulary:
    """Keeps specials, printable ASCII, GB 2312 Han, then the pieces seen most, until ``size``.

    ``teacher[i]`` is the piece of teacher row ``i``; ``counts`` says how often each row was used on
    normalised text. Ids are given in the order of the teacher's rows after the four specials.
    """
    row_of = {piece: row for row, (piece, _) in enumerate(teacher)}
    keep = [row_of[special] for special in SPECIALS]
    must = [_MARK, *(chr(c) for c in range(0x21, 0x7F) if not chr(c).isupper()), *gb2312_han()]
    chosen = dict.fromkeys(row_of[piece] for piece in must if piece in row_of)
    for row, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if len(chosen) + len(keep) >= size:
            break
        if row not in keep:
            chosen[row] = None
    return restore(teacher, (*keep, *sorted(chosen)))


def restore(teacher: Sequence[tuple[str, float]], rows: Sequence[int]) -> Vocabulary:
    """The vocabulary made of these teacher rows, specials first.

    Specials get a score so low that their names, met in a text, fall apart into ordinary pieces.
    """
    pieces = tuple(
        (piece, _NEVER if i < len(SPECIALS) else round(score, _PLACES))
        for i, (piece, score) in enumerate(teacher[row] for row in rows)
    )
    return Vocabulary(pieces, tuple(rows))
