"""The charts of a report, each with the sentence that says what it shows, and its figures as a table."""

from dataclasses import dataclass

from export.evaluate import Evaluation, Point, Sample
from export.report.charts import Axis, Plot, axis
from export.report.markup import figure, without
from export.report.subject import Subject
from export.report.words import Html, Words

ROWS = 8  # of a curve's table


@dataclass(frozen=True, slots=True)
class Scales:
    """What the charts of all languages share, so that they can be compared by eye."""

    coverage: float
    rate: float
    mix_rate: float


def scales(subject: Subject) -> Scales:
    """Wide enough for every language: the rate to somewhat above what is served, not to the curve's end."""
    result = subject.evaluation
    coverage = [
        points[-1].answered / max(1, result.samples[lang].questions)
        for lang, points in result.curves.items()
        if points and lang in result.samples
    ]
    served = [sample.bound for sample in result.samples.values() if sample.answered]
    stated = [promise.max_wrong for promise in subject.stated.promises]
    mixed = [mix.bound for rows in result.mixes.values() for mix in rows if mix.answered]
    least = max([0.04, *(2 * rate for rate in stated)])
    return Scales(
        coverage=min(1.0, max([0.1, *coverage])),
        rate=min(1.0, max([least, *(1.5 * min(bound, 0.3) for bound in served)])),
        mix_rate=min(1.0, max([least, *(1.05 * min(bound, 0.5) for bound in mixed)])),
    )


def risk_figure(subject: Subject, lang: str, words: Words, scale: Scales) -> Html:
    """Wrong answers against the share answered, with what is served."""
    result, name = subject.evaluation, words.lang_name(lang)
    points, sample = result.curves.get(lang, ()), result.samples.get(lang)
    if not points or sample is None:
        return without(words, name, words("risk.empty", lang=name))
    total = sample.questions
    plot = Plot(
        axis(words("risk.x"), scale.coverage, words.percent),
        axis(words("risk.y"), scale.rate, words.percent),
    )
    rows = [(p.answered / total, p.wrong / p.answered, p.bound) for p in points]
    plot.band(rows)
    plot.line([(x, rate) for x, rate, _ in rows], "rate")
    promise = next((p for p in subject.promises_of(lang) if p.key == lang), None)
    if promise:
        plot.level(promise.max_wrong, "stated", words("risk.stated", rate=words.percent(promise.max_wrong)))
    caption = words("risk.nothing_served", lang=name)
    if sample.answered:
        _mark_served(plot, sample, None if promise is None else promise.confidence, words)
        caption = words("risk.served", lang=name, **_served(sample, words))
    chart = plot.svg(f"{words.lang}-risk-{lang}", words("risk.title", lang=name), caption)
    step = max(1, len(points) // ROWS)
    shown: list[Point] = [*points[::-step]][::-1]
    table = [
        (
            f"{p.confidence:.3f}",
            words.percent(p.answered / total),
            words.percent(p.wrong / p.answered),
            words.percent(p.bound),
        )
        for p in shown
    ]
    heads = ("risk.from", "risk.x", "risk.y", "risk.bound")
    return figure(words, name, chart, caption, heads, table)


def _served(sample: Sample, words: Words) -> dict[str, Html]:
    return {
        "answered": words.percent(sample.answered / sample.questions),
        "count": words.count(sample.answered),
        "wrong_count": words.count(sample.wrong),
        "wrong": words.percent(sample.wrong / sample.answered),
        "bound": words.percent(sample.bound),
    }


def _mark_served(plot: Plot, sample: Sample, confidence: float | None, words: Words) -> None:
    share, rate = sample.answered / sample.questions, sample.wrong / sample.answered
    plot.upright(share, "served-line")
    plot.line([(share, rate), (share, sample.bound)], "whisker")
    plot.dot(share, rate, "dot served")
    served = _served(sample, words)
    lines = [
        words("risk.point"),
        words("risk.point_answered", **served),
        words("risk.point_wrong", **served),
        words("risk.point_bound", **served),
    ]
    if confidence is not None:
        lines.append(words("risk.point_from", confidence=f"{confidence:.2f}"))
    plot.box(share, lines)


def mix_figure(subject: Subject, lang: str, words: Words, scale: Scales) -> Html:
    """Wrong answers against the share of questions out of scope."""
    name, rows = words.lang_name(lang), [m for m in subject.evaluation.mixes.get(lang, ()) if m.answered]
    if not rows:
        return without(words, name, words("mix.empty", lang=name))
    plot = Plot(
        Axis(words("mix.x"), 0, 0.65, (0, 0.1, 0.2, 0.3, 0.4, 0.5), words.percent),
        axis(words("mix.y"), scale.mix_rate, words.percent),
    )
    plot.band([(m.out_of_scope, m.wrong, m.bound) for m in rows])
    plot.line([(m.out_of_scope, m.bound) for m in rows], "edge")
    plot.line([(m.out_of_scope, m.wrong) for m in rows], "rate")
    promise = next((p for p in subject.promises_of(lang) if p.key == lang), None)
    if promise:
        plot.level(promise.max_wrong, "stated", words("risk.stated", rate=words.percent(promise.max_wrong)))
    for m in rows:
        tip = words(
            "mix.tip",
            share=words.percent(m.out_of_scope),
            wrong=words.percent(m.wrong),
            **_bound(m.bound, words),
        )
        plot.dot(m.out_of_scope, m.wrong, "dot", tip=tip)
    last = rows[-1]
    plot.label(last.out_of_scope, last.bound, words("mix.at_most", **_bound(last.bound, words)), by=(0, -8))
    plot.label(last.out_of_scope, last.wrong, words("mix.seen", wrong=words.percent(last.wrong)), by=(0, -10))
    caption = words(
        "mix.caption",
        lang=name,
        first=words.percent(rows[0].out_of_scope),
        first_wrong=words.percent(rows[0].wrong),
        first_bound=words.percent(rows[0].bound),
        last=words.percent(last.out_of_scope),
        last_wrong=words.percent(last.wrong),
        last_bound=words.percent(last.bound),
    )
    chart = plot.svg(f"{words.lang}-mix-{lang}", words("mix.title", lang=name), caption)
    table = [
        tuple(words.percent(share) for share in (m.out_of_scope, m.answered, m.wrong, m.bound)) for m in rows
    ]
    heads = ("mix.x", "mix.answered", "mix.y", "risk.bound")
    return figure(words, name, chart, caption, heads, table)


def _bound(bound: float, words: Words) -> dict[str, Html]:
    return {"bound": words.percent(bound)}


def reliability_figure(result: Evaluation, words: Words) -> Html:
    """The share that is right against the confidence."""
    bins = result.reliability
    if not bins:
        return without(words, "", words("reliability.empty"))
    tenths = (0, 0.2, 0.4, 0.6, 0.8, 1.0)
    plot = Plot(
        Axis(words("reliability.x"), 0, 1, tenths, lambda v: f"{v:.1f}"),
        Axis(words("reliability.y"), 0, 1, tenths, words.percent),
    )
    most = max(b.questions for b in bins)
    for b in bins:
        low = min(9, int(b.confidence * 10)) / 10
        tip = words("reliability.tip", count=words.count(b.questions), right=words.percent(b.right))
        plot.bar(low, low + 0.1, 0.22 * b.questions / most, "count", tip)
        plot.label(low + 0.05, 0.22 * b.questions / most, words.count(b.questions), "small middle", (0, -4))
    plot.line([(0, 0), (1, 1)], "ideal")
    plot.label(0.9, 0.9, words("reliability.ideal"), "", (-14, 22))
    plot.line([(b.confidence, b.right) for b in bins], "rate")
    for b in bins:
        plot.dot(b.confidence, b.right, "dot", tip=words.percent(b.right))
    caption = words(f"reliability.{lean(result)}", off=words.percent(off(result)))
    chart = plot.svg(f"{words.lang}-reliability", words("reliability.title"), caption)
    table = [(f"{b.confidence:.2f}", words.percent(b.right), words.count(b.questions)) for b in bins]
    heads = ("reliability.x", "reliability.y", "reliability.count")
    return figure(words, "", chart, caption, heads, table)


def off(result: Evaluation) -> float:
    """How far confidence and the share that is right lie apart, on average (expected calibration error)."""
    total = sum(b.questions for b in result.reliability)
    return sum(b.questions * abs(b.right - b.confidence) for b in result.reliability) / max(1, total)


def lean(result: Evaluation) -> str:
    """Whether the confidence is rather ``careful``, ``bold`` or ``even``."""
    total = sum(b.questions for b in result.reliability)
    signed = sum(b.questions * (b.right - b.confidence) for b in result.reliability) / max(1, total)
    if abs(signed) < 0.02:
        return "even"
    return "careful" if signed > 0 else "bold"


def latency_figure(result: Evaluation, words: Words) -> Html:
    """The time a decision takes, by the share of questions that take no longer."""
    ms = result.ms
    last = len(ms) - 1
    if last < 1 or not any(ms):
        return without(words, "", words("latency.empty"))
    plot = Plot(
        Axis(words("latency.x"), 0, 1, (0, 0.25, 0.5, 0.75, 1), words.percent),
        axis(words("latency.y"), 1.15 * result.p99_ms, lambda v: f"{v:g}"),
    )
    points = [(i / last, value) for i, value in enumerate(ms)]
    plot.band([(x, 0.0, value) for x, value in points])
    plot.line(points, "rate")
    for share, value, key in ((0.5, result.p50_ms, "half"), (0.99, result.p99_ms, "almost_all")):
        plot.dot(share, value, "dot served")
        plot.label(share, value, words(f"latency.{key}", ms=f"{value:.2f}"), by=(-4, -11))
    caption = words("latency.caption", p50=f"{result.p50_ms:.2f}", p99=f"{result.p99_ms:.2f}")
    chart = plot.svg(f"{words.lang}-latency", words("latency.title"), caption)
    table = [(words.percent(i / last), f"{ms[i]:.2f}") for i in range(0, last + 1, max(1, last // 10))]
    return figure(words, "", chart, caption, ("latency.x", "latency.y"), table)
