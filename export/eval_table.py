"""An evaluation as text for a terminal."""

from collections.abc import Iterator, Sequence

from export.evaluate import Evaluation
from export.tool_gates import Gate, merged

WORST = 10  # errors that are shown


def table(evaluation: Evaluation) -> str:
    """The evaluation as text for a terminal."""
    head = f"{'lang':<5}{'kind':<14}{'questions':>10}{'answerable':>12}{'answered':>10}{'wrong':>7}"
    lines = [head, "-" * len(head)]
    langs = sorted({s.lang for s in evaluation.strata})
    rows = [*evaluation.strata, *(evaluation.total(lang) for lang in langs), evaluation.total()]
    lines += [
        f"{s.lang:<5}{s.kind:<14}{s.questions:>10}{s.answerable:>12}{s.answered:>10}{s.wrong:>7}"
        for s in rows
    ]
    lines.append("")
    lines.append(f"topic accuracy in scope  {evaluation.topic_accuracy:.1%}")
    lines.append(f"text → decision          p50 {evaluation.p50_ms:.2f} ms, p99 {evaluation.p99_ms:.2f} ms")
    left = ", ".join(f"{exit_}: {count}" for exit_, count in evaluation.exits.items())
    lines.append(f"read down to layer       {left}")
    reasons = ", ".join(f"{reason} {count}" for reason, count in evaluation.reasons.items())
    lines.append(f"forwarded because        {reasons}")
    if evaluation.guards:
        stopped = ", ".join(f"{g.name} {g.wrong}/{g.right}" for g in evaluation.guards)
        lines.append(f"guards, wrong/right      {stopped}")
    lines += _tools(evaluation.tools)
    if evaluation.errors:
        lines.append("wrong, surest first")
    lines += [
        f"  {e['confidence']:.3f}  {e['text']!r} ({e['lang']} {e['kind']}) is {e['topic']}, "
        f"got {e['answered_with']}"
        for e in evaluation.errors[:WORST]
    ]
    if len(evaluation.errors) > WORST:
        lines.append(f"  … and {len(evaluation.errors) - WORST} more (--json has all)")
    return "\n".join(lines)


def _tools(gates: Sequence[Gate]) -> Iterator[str]:
    """A row for every gate; without one a tool is only suggested."""
    if not gates:
        return
    head = f"{'tool':<24}{'lang':<5}{'level':<17}{'gate':>6}{'called':>8}{'right':>7}"
    head += f"{'precision':>11}{'bound':>8}"
    yield from ("", head, "-" * len(head))
    for gate in merged(gates):
        if gate.confidence is not None:
            share = "–" if gate.precision is None else f"{gate.precision:.1%}"
            yield (
                f"{gate.tool:<24}{gate.lang:<5}{gate.level:<17}{gate.confidence:>6.3f}"
                f"{gate.called:>8}{gate.right:>7}{share:>11}{gate.bound:>8.1%}"
            )
    if none := [f"{gate.tool} ({gate.lang} {gate.level})" for gate in gates if gate.confidence is None]:
        yield f"no gate: {', '.join(none)}"
    yield ""
