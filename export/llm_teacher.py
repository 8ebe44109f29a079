"""``frontdesk distill --llm``: unlabelled traffic becomes further examples and outliers, labelled by an LLM.

The LLM's labels are held against what the desk itself is sure of: its examples, and the heads that
``frontdesk train`` would fit to them. Where those name another topic, somebody has to look, and nothing is
learnt. Where the heads are not sure, or hold a text for out of scope, the LLM is believed: such texts are
what it is asked for.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edge.errors import DeskError, LLMError
from export.desk import OUT_OF_SCOPE, Desk
from export.encoder import Encoder
from export.fit import examples_of, fit_desk
from export.heads import features_of, log_sum, novelty_of
from export.label_file import LabelFile
from export.llm import Llm, Usage
from export.llm_labels import BATCH, Labeller, batches_of
from export.pools import Pools
from export.progress import say
from export.traffic import Said, Taught, Traffic, read_traffic

SURE = 0.9  # the confidence from which on the heads' word stands against the LLM's
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A text to which the LLM and the desk give different topics; ``by``: ``example`` or ``heads``."""

    text: str
    llm: str
    desk: str
    confidence: float
    by: str


def teach(desk: Desk, base: Encoder, pools: Pools, path: Path, llm: Llm, seed: int = 0) -> Taught:
    """What a training may learn of a file of traffic. Says on stderr what it will do, did and left out.

    Labels go to a file beside the traffic, and a second run asks only for those that it lacks. Raises
    DeskError, LLMError, BundleError.
    """
    traffic = read_traffic(path, desk, base.normaliser)
    labels, unlabelled = _label(desk, traffic, llm)
    if not labels:
        raise LLMError(
            f"{llm.model} labelled none of the {len(traffic.said):,} texts of {path} that could be learnt "
            f"({_listed(unlabelled) or 'there is none'})."
        )
    found, known = disagreements(desk, base, pools, labels, seed)
    _write(traffic.beside("disagreements"), found)
    doubtful = {one.text for one in found}
    place = {topic.id: i for i, topic in enumerate(desk.topics)}
    kept = [(s.text, topic) for s, topic in labels.items() if s.text not in doubtful and s.key not in known]
    taught = Taught(
        tuple((text, place[topic]) for text, topic in kept if topic != OUT_OF_SCOPE),
        tuple(text for text, topic in kept if topic == OUT_OF_SCOPE),
        llm.model,
    )
    same = len(known) - sum(one.by == "example" for one in found)
    say(f"{len(labels):,} texts have a label")
    if unlabelled:
        say(f"{unlabelled.total():,} stay without one ({_listed(unlabelled)}); another run asks again")
    if known:
        say(f"{len(known):,} are examples already, the LLM gave {same:,} of them the desk's topic")
    _tell(found, traffic.beside("disagreements"))
    counts = f"{len(taught.examples):,} further examples and {len(taught.outliers):,} outliers"
    say(f"{counts} go into the training")
    return taught


def _label(desk: Desk, traffic: Traffic, llm: Llm) -> tuple[dict[Said, str], Counter[str]]:
    """The labels of the traffic, from the file or the LLM, and why the others have none."""
    usage = Usage()
    with LabelFile(traffic.beside("labels"), desk.topics, llm.model) as file:
        asked = [said for said in traffic.said if file.label(said) is None]
        for reason, count in traffic.left.items():
            say(f"{count:,} texts of {traffic.path} are left out: {reason}")
        say(
            f"{len(traffic.said) - len(asked):,} texts are labelled already, {len(asked):,} go to "
            f"{llm.model} at {llm.base_url}, in {len(batches_of(asked)):,} requests of up to {BATCH}"
        )
        labeller = Labeller(llm, desk.topics, file, usage)
        try:
            if asked:
                labeller.run(asked)
        finally:  # what was paid is told also when it was in vain
            if usage.requests:
                say(usage.told(llm.price))
        labels = {said: label for said in traffic.said if (label := file.label(said)) is not None}
    return labels, labeller.unlabelled


def disagreements(
    desk: Desk, base: Encoder, pools: Pools, labels: Mapping[Said, str], seed: int = 0
) -> tuple[list[Disagreement], set[str]]:
    """Where the desk is sure of another topic than the LLM, and the keys of texts that are its examples."""
    normaliser = base.normaliser
    topics = [topic.id for topic in desk.topics]
    examples = {normaliser.exact(normaliser.reading(text)): topics[i] for text, i in examples_of(desk)}
    heads = fit_desk(desk, base, pools, seed)[-1]
    x = base.embed([said.text for said in labels], "Embedding the traffic")
    logits = heads.topics(features_of(x))
    novelty = novelty_of(base.tokens([said.text for said in labels]), heads.vocabulary)
    in_scope = 1 / (1 + np.exp(-heads.in_scope(x[-1], logits, novelty)))
    confidence = in_scope * np.exp(logits.max(1) - log_sum(logits))
    sure = heads.held.confidence >= SURE
    if sure.any():
        right = (heads.held.said == heads.held.topic)[sure].mean()
        say(f"Of the desk's own texts that heads say with {SURE} or more, unseen, {right:.1%} are right")
    found = []
    for (said, label), logit, share in zip(labels.items(), logits, confidence, strict=True):
        if said.key in examples:
            own, certain, by = examples[said.key], 1.0, "example"
        else:
            own, certain, by = topics[int(logit.argmax())], float(share), "heads"
        if own != label and certain >= SURE:
            found.append(Disagreement(said.text, label, own, round(certain, 4), by))
    return found, {said.key for said in labels if said.key in examples}


def _write(path: Path, found: Sequence[Disagreement]) -> None:
    """Write the disagreements, whole or not at all; an older file is replaced."""
    keys = Disagreement.__slots__
    rows = [json.dumps({key: getattr(one, key) for key in keys}, ensure_ascii=False) for one in found]
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.write_text("".join(f"{row}\n" for row in rows), "utf-8")
        beside.replace(path)
    except OSError as exc:
        raise DeskError([f"{path}: cannot be written ({exc.strerror}); make room or move it away."]) from exc


def _tell(found: Sequence[Disagreement], path: Path) -> None:
    if not found:
        return
    say(f"{len(found):,} are not used: the desk is sure of another topic than the LLM; all are in {path}")
    for one in found[:_SHOWN]:
        print(
            f"  {one.text!r}: LLM {one.llm}, desk {one.desk} ({one.by}, {one.confidence:.2f})",
            file=sys.stderr,
        )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{reason}: {count:,}" for reason, count in counts.items())
