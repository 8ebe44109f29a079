"""The model card of a bundle."""

from collections.abc import Mapping, Sequence
from typing import Any

from export.desk import Desk
from export.tool_gates import Gate, merged

_FROZEN = """\
The base student is frozen: a multinomial logistic regression for the topics, on the embeddings of all exits
so far, one in-scope and one needs-context head at every exit, calibrated by cross-fitting."""
_TUNED = """\
The whole student was tuned together with the topic heads of every exit; in-scope and needs-context heads
were fitted after it. A tenth of the texts was kept out of the tuning and calibrates all heads."""
_TAUGHT = """
{examples} further examples and {outliers} texts out of scope were labelled by the LLM {model!r}; they were
trained on and judge nothing."""
_TOOLS = """
## Tools
Answers that tools fill stand under the thresholds above. For a turn that is forwarded a tool is called from a
gate on: the lowest confidence from which it is proven, on the same questions, to be the right one in half of
the calls, for what the agent may collect (prefetch), or in nine of ten, for what goes with the turn (inject);
each at 95% confidence. Without a gate it is only suggested. "Together": proven for all such tools together.

| tool | language | level | gate | called | right | precision | at least |
|---|---|---|---|---|---|---|---|
{rows}
"""


def bundle_card(desk: Desk, report: Mapping[str, Any]) -> str:
    """README.md of a bundle, from its evaluation."""
    routes = {route: sum(t.route == route for t in desk.topics) for route in ("answer", "tool", "agent")}
    filled = sum(t.route == "tool" and bool(t.answerable) for t in desk.topics)
    examples = sum(len(texts) for topic in desk.topics for texts in topic.examples.values())
    rows = "\n".join(
        f"| {s['lang']} | {s['kind']} | {s['questions']} | {s['answered']} | {s['wrong']} |"
        for s in report["test"]["strata"]
    )
    thresholds = "\n".join(_threshold(key, t) for key, t in report["thresholds"].items())
    left = report["test"]["exits"]
    exits = "\n".join(
        f"| {e['exit']} | {e['temperature']} | {e['held_topic_accuracy']:.1%} "
        f"| {left.get(str(e['exit']), 0)} |"
        for e in report["exits"]
    )
    risk = report["risk"]
    taught = _TAUGHT.format(**report["taught"]) if "taught" in report else ""
    languages = ", ".join(map(str, desk.languages))
    named = (f"{name} {share:.0%}" for name, share in report["traffic"].items())
    traffic = ", ".join(named) if report["traffic"] else "as the calibration questions are"
    return f"""---
license: apache-2.0
language: [{languages}]
library_name: onnx
pipeline_tag: text-classification
tags: [onnx, text-classification, distillation, frontdesk]
---
# {desk.name}: a Frontdesk bundle

Built by `frontdesk {"distill" if report["tuned"] else "train"}` from the desk `{desk.name}` and the base
student. It reads a question in {languages}, says which of {len(desk.topics)} topics it is
({routes["answer"]} with an answer, {routes["tool"]} for tools, {filled} of these answered by them, and
{routes["agent"]} for the agent), and how surely.

## Training
{examples} examples of the desk, and Frontdesk's own pools of out-of-scope questions and follow-ups.
{_TUNED if report["tuned"] else _FROZEN}{taught} The base's own card says what it was distilled from.

| exit after layer | temperature | accuracy on examples not seen by its heads | test questions read to here |
|---|---|---|---|
{exits}

## Thresholds
Stated risk: at most {risk["max_wrong"]:.1%} wrong among local answers, at {risk["confidence"]:.0%}
confidence, for traffic like this: {traffic}. Proving it takes {report["answers_to_prove"]} held-out answers
without an error, or more with some, in each language.
A proven threshold is the loosest that passed tests in an order fixed beforehand, on the questions of
`eval/calibrate.jsonl` in the traffic's proportions. The bound of an unproven one was chosen on the same
questions and is a guide. Both hold for questions like those in the file.

| for | confidence from | answered | of these wrong | upper bound of wrong answers | stated | proven |
|---|---|---|---|---|---|---|
{thresholds}
{_tools(report["tools"])}
## Held-out test questions (`eval/test.jsonl`, used for nothing else)
| language | kind | questions | answered here | of these wrong |
|---|---|---|---|---|
{rows}

Topic accuracy in scope: {report["test"]["topic_accuracy"]:.1%}. `evaluation.json` lists every wrong answer.

## Use
`frontdesk serve --bundle THIS_FOLDER`. The graph also loads in onnxruntime and transformers.js on its own;
guards, thresholds and answers are in `frontdesk.json` and `answers.jsonl`.

## Limits
The figures hold for questions like the held-out ones, which the desk's authors wrote: measure on your own
traffic with `answering: observe` first.
"""


def _threshold(key: str, entry: Mapping[str, Any]) -> str:
    name = f"{key}, together with others" if entry["pooled"] else key
    cells = (
        name,
        f"{entry['confidence']:.4f}",
        f"{entry['answered']} of {entry['questions'] or 'its own examples and a pool'}",
        str(entry["wrong"]),
        f"{entry['bound']:.2%}",
        f"{entry['max_wrong']:.1%}",
        "yes" if entry["proven"] else "no",
    )
    return f"| {' | '.join(cells)} |"


def _tools(found: Sequence[Mapping[str, Any]]) -> str:
    gates = merged(Gate(**entry) for entry in found)
    return _TOOLS.format(rows="\n".join(map(_gate, gates))) if gates else ""


def _gate(gate: Gate) -> str:
    cells = (
        gate.tool,
        gate.lang,
        gate.level,
        "none" if gate.confidence is None else f"{gate.confidence:.3f}{', together' if gate.pooled else ''}",
        str(gate.called),
        str(gate.right),
        "–" if gate.precision is None else f"{gate.precision:.1%}",
        f"{gate.bound:.1%}",
    )
    return f"| {' | '.join(cells)} |"
