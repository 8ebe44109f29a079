"""Public sets as answer desks: each question that training did not see is judged once, by us and by others.

A desk's topics all have an answer. It is built once as ``frontdesk train`` does; then the real pipeline,
guards included, judges every held-out question, and risk_splits draws calibration and test halves of them.
"""

import json
import pickle
import sys
import tempfile
import venv
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from peers import Worker, install
from risk_splits import Scores, figures
from sets import OOS, Text, load_set

from edge.normaliser import Lang, Normaliser
from export.corpus import read_rows
from export.desk import OUT_OF_SCOPE, Desk, DeskTopic, Question, Risk
from export.encoder import Encoder
from export.fit import fit_desk
from export.judged import Judged, judge
from export.opened import write_opened
from export.pools import load_pools
from export.progress import Progress

# How neighbours decide, and what of peers.py has to be installed for it.
NEIGHBOURS = {"nearest_minilm": "minilm_int8_lr", "nearest_bge": "bge_small_int8_lr"}
STATED_MIX = {"in_scope": 0.8, "out_of_scope": 0.2}


@dataclass(frozen=True, slots=True)
class RiskSet:
    """Examples and held-out questions of a desk, and the rates that it is to keep, one at a time.

    ``texts``: title and answer of a topic, where it has any.
    """

    licence: str
    note: str
    rates: tuple[float, ...]
    examples: tuple[Text, ...]
    held: tuple[Text, ...]
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)

    def desk(self, name: str) -> Desk:
        """With nothing to calibrate on: that is done anew in every split."""
        by_label: dict[str, list[str]] = {}
        for row in self.examples:
            by_label.setdefault(row.label, []).append(row.text)
        topics = []
        for label, own in sorted(by_label.items()):
            title, answer = self.texts.get(label, (label, label))
            topics.append(DeskTopic(label, {"en": title}, "answer", {Lang.EN: tuple(own)}, {Lang.EN: answer}))
        return Desk(Path(), name, (Lang.EN,), tuple(topics))


def clinc150(data: Path, normaliser: Normaliser) -> RiskSet:
    found = load_set("clinc150", data, normaliser)
    note = "examples: the train rows; held out: the valid and test rows with their own oos rows"
    return RiskSet(found.licence, note, (0.01, 0.05), found.train, found.valid + found.test)


def banking77_oos(data: Path, normaliser: Normaliser) -> RiskSet:
    found = load_set("banking77_oos", data, normaliser)
    oos = [row for row in read_rows(data / "banking77/train.jsonl") if row["label"] not in found.labels]
    held = [row for row in found.train if half(row.text)] + [
        row for row in found.valid + found.test if row.label != OOS
    ]
    note = (
        "examples: four tenths of the rows of 50 intents; held out: the others, and all rows of the other 27 "
        "intents as out of scope near by; the base met all these rows, with labels, in its own training"
    )
    outside = distinct((Text(row["text"], OOS, Lang.EN) for row in oos), normaliser, [*found.train, *held])
    examples = tuple(row for row in found.train if not half(row.text))
    return RiskSet(found.licence, note, (0.01, 0.05), examples, (*held, *outside))


def covidq_faq(data: Path, normaliser: Normaliser) -> RiskSet:
    entries = list(read_rows(data / "covidq_faq/faq.jsonl"))
    rows = list(read_rows(data / "covidq_faq/no_answer.jsonl"))
    oos = [Text(row["text"], OOS, Lang.EN) for row in rows]
    note = (
        "examples: an entry's question and half of its variants; held out: the other half; an entry without "
        "variants is a topic of one example that no held-out question asks; out of scope: its own questions "
        "that match no entry"
    )
    return faq("GPL-3.0", note, entries, oos, normaliser)


def stackfaq(data: Path, normaliser: Normaliser) -> RiskSet:
    entries = list(read_rows(data / "stackfaq/faq.jsonl"))
    outside = [entry for entry in entries if zlib.crc32(entry["id"].encode()) % 5 == 0]
    entries = [entry for entry in entries if entry not in outside]
    oos = [Text(text, OOS, Lang.EN) for entry in outside for text in (entry["question"], *entry["variants"])]
    note = (
        "examples: an entry's question and half of its variants; held out: the other half; out of scope: "
        f"every text of {len(outside)} entries, a fifth drawn by hash, that the desk does not have"
    )
    return faq("CDLA-Sharing-1.0", note, entries, oos, normaliser)


SOURCES: dict[str, Callable[[Path, Normaliser], RiskSet]] = {
    one.__name__: one for one in (stackfaq, covidq_faq, banking77_oos, clinc150)
}


def faq(
    licence: str, note: str, entries: Sequence[Any], oos: Sequence[Text], normaliser: Normaliser
) -> RiskSet:
    examples, held = [], []
    for entry in entries:
        ordered = sorted(entry["variants"], key=lambda text: zlib.crc32(text.encode()))
        rows = [Text(text, entry["id"], Lang.EN) for text in (entry["question"], *ordered)]
        known = 1 + len(ordered) // 2
        examples += rows[:known]
        held += rows[known:]
    examples = distinct(examples, normaliser, ())
    texts = {entry["id"]: (entry["question"], entry["answer"] or entry["question"]) for entry in entries}
    return RiskSet(licence, note, (0.05,), examples, distinct([*held, *oos], normaliser, examples), texts)


def half(text: str) -> bool:
    return zlib.crc32(text.encode()) % 2 == 0


def distinct(rows: Iterable[Text], normaliser: Normaliser, barred: Iterable[Text]) -> tuple[Text, ...]:
    """The first of the rows that read alike; none that reads like a barred one."""

    def key(row: Text) -> str:
        return normaliser.exact(normaliser.reading(row.text))

    found: dict[str, Text] = {}
    seen = {key(row) for row in barred}
    for row in rows:
        if key(row) not in seen:
            found.setdefault(key(row), row)
    return tuple(found.values())


def measure(name: str, data: Path, base_folder: Path, work: Path) -> dict[str, Any]:
    """Every figure of a set."""
    base = Encoder(base_folder)
    found = SOURCES[name](data, base.normaliser)
    desk = found.desk(name)
    judged = cached(work / f"{name}.judged", lambda: judge_held(found, desk, base))
    own = Scores.of_judged(judged)
    neighbours, missing = ask_neighbours(found, name, work)
    inside = int((own.strata == "in_scope").sum())
    own_mix = {"in_scope": inside / len(judged), "out_of_scope": 1 - inside / len(judged)}
    counts = Counter(row.label for row in found.examples)
    return {
        "licence": found.licence,
        "note": found.note,
        "topics": len(desk.topics),
        "examples": len(found.examples),
        "examples_a_topic": [min(counts.values()), max(counts.values())],
        "held": {"in_scope": inside, "out_of_scope": len(judged) - inside},
        "topic_right": round(float(own.topic_right[own.strata == "in_scope"].mean()), 4),
        "open": {stratum: round(float(own.open[own.strata == stratum].mean()), 4) for stratum in own_mix},
        "missing": missing,
        "promises": [
            {"max_wrong": rate, "traffic": {key: round(share, 4) for key, share in traffic.items()}}
            | figures(replace(desk, risk=Risk(rate, 0.95), traffic=traffic), judged, own, neighbours)
            for rate in found.rates
            for traffic in (own_mix, STATED_MIX)
        ],
    }


def judge_held(found: RiskSet, desk: Desk, base: Encoder) -> list[Judged]:
    """Every held-out question, once, by the pipeline of the desk's bundle with its thresholds open."""
    with tempfile.TemporaryDirectory() as folder:
        pools = load_pools()
        pipeline = write_opened(Path(folder), desk, base, fit_desk(desk, base, pools, seed=0))
        progress = Progress(f"Judging {desk.name}", len(found.held))
        judged = []
        for row in found.held:
            kind = "out_of_scope" if row.label == OOS else "in_scope"
            topic = OUT_OF_SCOPE if row.label == OOS else row.label
            judged += judge(pipeline, [Question(row.text, topic, row.lang, kind)])
            progress.add()
        progress.end()
    return judged


def ask_neighbours(found: RiskSet, name: str, work: Path) -> tuple[dict[str, Scores], dict[str, str]]:
    """What a neighbour's nearest example says of the held-out questions; and who is missing, and why."""
    python = work / "peers/bin/python"
    if not python.exists():
        venv.create(work / "peers", with_pip=True)
    rows = {"train": found.examples, "valid": (), "test": found.held}
    data = work / f"{name}.json"
    data.write_text(json.dumps({part: [asdict(row) for row in some] for part, some in rows.items()}))
    cache = work / "peers/cache" / f"risk-{name}-{zlib.crc32(data.read_bytes()):08x}"
    scores: dict[str, Scores] = {}
    missing: dict[str, str] = {}
    for neighbour, packages in NEIGHBOURS.items():
        reason = install(python, packages)
        if reason is None:
            command = [
                str(python),
                str(Path(__file__).with_name("peer.py")),
                neighbour,
                str(data),
                str(cache),
            ]
            print(f"Asking {neighbour} {len(found.held)} questions of {name}", file=sys.stderr)
            with tempfile.TemporaryFile("w+") as words, Worker(command, words) as worker:
                reason = worker.failure
                if reason is None:
                    said = worker.ready["test"]
                    scores[neighbour] = Scores.of_said([row.label for row in found.held], said)
        if reason is not None:
            missing[neighbour] = reason
    return scores, missing


def cached(path: Path, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever was made
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(make()))
    return pickle.loads(path.read_bytes())
