"""The parts of a report that are tables and lists: verdict, topics, confusions, errors, forwards, size."""

from collections.abc import Sequence
from typing import Any

from export.desk import OUT_OF_SCOPE
from export.evaluate import Evaluation, Stratum, TopicRow
from export.report.markup import bad, bar, soft, table
from export.report.subject import Promise, Subject
from export.report.words import Html, Words, esc, join, quote
from export.tool_gates import merged

SHOWN = 12  # errors that are not folded


def verdict(subject: Subject, words: Words) -> Html:
    """A card for each language: what it answers, how often wrongly, what is stated, and proven or not."""
    return Html(
        f'<div class="cards">{join([_card(subject, lang, words) for lang in subject.languages])}</div>'
    )


def _card(subject: Subject, lang: str, words: Words) -> Html:
    rows = [s for s in subject.evaluation.strata if s.lang == lang]
    name = words.lang_name(lang)
    promises = subject.promises_of(lang)
    badge = _badge(promises, words)
    if not rows:
        return Html(f'<section class="card"><h3>{name}{badge}</h3><p>{words("verdict.none")}</p></section>')
    answered, wrong = sum(s.answered for s in rows), sum(s.wrong for s in rows)
    answerable = sum(s.answerable for s in rows if s.kind != "follow_up")
    right = answered - wrong
    share = words.percent(right / answerable) if answerable else Html("–")
    lines = [
        words(
            "verdict.answers",
            right=words.count(right),
            answerable=words.count(answerable),
            share=share,
        ),
        words(
            "verdict.wrong" if wrong else "verdict.none_wrong" if answered else "verdict.nothing",
            wrong=words.count(wrong),
            answered=words.count(answered),
            share=words.percent(wrong / max(1, answered)),
        ),
    ]
    told = "".join(f"<p>{promise_text(subject, p, words)}</p>" for p in promises[:1])
    more = "".join(f"<li>{promise_text(subject, p, words)}</li>" for p in promises[1:])
    table = _kinds(subject, lang, words)
    return Html(
        f'<section class="card"><h3>{name}{badge}</h3>'
        f'<p class="big">{share} <span>{words("verdict.big")}</span></p>'
        f"{_meter(right, max(1, answerable), wrong)}"
        f"<p>{words.sentences(lines)}</p>{told}"
        f"{f'<ul>{more}</ul>' if more else ''}{table}</section>"
    )


def _badge(promises: Sequence[Promise], words: Words) -> Html:
    if not promises:
        return Html("")
    proven, rate = all(p.proven for p in promises), words.percent(promises[0].max_wrong)
    sign, key = ("✓", "proven") if proven else ("○", "unproven")
    return Html(
        f' <span class="badge {key}"><span aria-hidden="true">{sign}</span> '
        f"{words(f'verdict.{key}', rate=rate)}</span>"
    )


def _meter(right: int, answerable: int, wrong: int) -> Html:
    whole = max(answerable + wrong, 1)
    return Html(
        '<div class="meter" aria-hidden="true">'
        f'<i class="right" style="width:{100 * right / whole:.1f}%"></i>'
        f'<i class="wrong" style="width:{100 * wrong / whole:.1f}%"></i></div>'
    )


def promise_text(subject: Subject, promise: Promise, words: Words) -> Html:
    """What is stated, and whether it is proven; for a group or a topic of its own rate, of which."""
    owner = promise.key.rpartition("/")[0]
    of = Html("")
    if owner.startswith("topic:"):
        of = words("verdict.of_topic", topic=words.topic(owner.removeprefix("topic:")))
    elif owner:
        of = words("verdict.of_group", group=owner)
    said = words(
        "verdict.stated",
        rate=words.percent(promise.max_wrong),
        confidence=words.percent(subject.stated.confidence),
    )
    if promise.proven:
        outcome = words("verdict.is_proven", bound=words.percent(promise.bound))
    elif promise.to_prove:
        outcome = words("verdict.more_would", count=words.count(promise.to_prove))
    elif promise.answered:
        outcome = words(
            "verdict.more_would_not",
            wrong=words.count(promise.wrong),
            answered=words.count(promise.answered),
            share=words.percent(promise.wrong / promise.answered),
        )
    else:
        outcome = words("verdict.is_unproven")
    forwards = Html("")
    if not promise.proven:
        forwards = words("verdict.answers_anyway" if subject.answer_unproven else "verdict.forwards")
    return Html(of + words.sentences([said, outcome, forwards]))


def _kinds(subject: Subject, lang: str, words: Words) -> Html:
    rows = [
        f'<tr><th scope="row">{words.name("kind", s.kind)}</th><td>{words.count(s.questions)}</td>'
        f"<td>{soft(words, s.answered)}</td><td>{bad(words, s.wrong)}</td></tr>"
        for s in sorted(subject.evaluation.strata, key=_order)
        if s.lang == lang
    ]
    return table(
        words,
        "verdict.kinds",
        ("verdict.kind", "verdict.asked", "verdict.answered", "verdict.were_wrong"),
        rows,
    )


def _order(stratum: Stratum) -> tuple[int, str]:
    """What can be answered comes first, then what sounds like it."""
    kinds = ("in_scope", "near_miss", "out_of_scope", "follow_up")
    return kinds.index(stratum.kind) if stratum.kind in kinds else len(kinds), stratum.kind


def topics(subject: Subject, words: Words) -> Html:
    """Every topic: asked, found, answered, wrong; those with wrong answers and those least found first."""
    rows = sorted(
        subject.evaluation.topics, key=lambda t: (-t.wrong, t.found / t.questions if t.questions else 2)
    )
    heads = ("topics.topic", "topics.asked", "topics.found", "topics.answered", "topics.wrong")
    return table(words, "topics.title", heads, [_topic(row, subject, words) for row in rows], "tall sortable")


def _topic(row: TopicRow, subject: Subject, words: Words) -> str:
    found = row.found / row.questions if row.questions else 0.0
    share = words.percent(found) if row.questions else "–"
    here = row.topic in subject.answerable
    answers = words.count(row.answered) if here else words("topics.forwards")
    return (
        f'<tr><th scope="row">{words.topic(row.topic)}<code>{esc(row.topic)}</code></th>'
        f'<td data-sort="{row.questions}">{words.count(row.questions)}</td>'
        f'<td data-sort="{found if row.questions else -1:.4f}">'
        f'<span class="pair">{share}{bar(found)}</span></td>'
        f'<td data-sort="{row.answered}">{answers}</td>'
        f'<td data-sort="{row.wrong}">{bad(words, row.wrong)}</td></tr>'
    )


def confusions(subject: Subject, words: Words) -> Html:
    """Which topics are taken for which, with an example each."""
    rows = subject.evaluation.confusions
    if not rows:
        return Html(f'<p class="none">{words("confusions.none")}</p>')
    items = [
        f'<li><p class="swap"><b>{words.topic(c.topic)}</b> '
        f'<span class="arrow">{words("confusions.taken_for")}</span> <b>{words.topic(c.taken_for)}</b> '
        f'<span class="times">{words("confusions.times", count=words.count(c.count))}</span></p>'
        f'<p class="said">{quote(c.example)}</p></li>'
        for c in rows
    ]
    return Html(f'<ul class="tiles">{"".join(items)}</ul>')


def errors(result: Evaluation, words: Words) -> Html:
    """Every wrong answer, surest first."""
    if not result.errors:
        return Html(f'<p class="none">{words("errors.none")}</p>')
    items = [_error(error, words) for error in result.errors]
    shown = f'<ol class="errors">{"".join(items[:SHOWN])}</ol>'
    if len(items) > SHOWN:
        rest = words("errors.more", count=words.count(len(items) - SHOWN))
        shown += (
            f'<details><summary>{rest}</summary><ol class="errors" start="{SHOWN + 1}">'
            f"{''.join(items[SHOWN:])}</ol></details>"
        )
    return Html(shown)


def _error(error: dict[str, Any], words: Words) -> str:
    turns = "".join(
        f'<p class="turn {"user" if turn["role"] == "user" else "other"}">'
        f'<span class="role">{words.name("role", turn["role"])}</span> {quote(turn["content"])}</p>'
        for turn in error["history"]
    )
    deep = error["exit"]
    left = words("errors.exact") if deep is None else words("errors.exit", layer=deep)
    return (
        f'<li>{turns}<p class="said">{quote(error["text"])}</p><dl>'
        f"<div><dt>{words('errors.is')}</dt><dd>{_topic_name(error['topic'], words)}</dd></div>"
        f'<div class="bad"><dt>{words("errors.got")}</dt>'
        f"<dd>{_topic_name(error['answered_with'], words)}</dd></div>"
        f"<div><dt>{words('errors.confidence')}</dt><dd>{error['confidence']:.3f}</dd></div>"
        f"<div><dt>{words('errors.kind')}</dt><dd>{words.name('kind', error['kind'])} · "
        f"{words.lang_name(error['lang'])}</dd></div>"
        f"<div><dt>{words('errors.left')}</dt><dd>{left}</dd></div></dl></li>"
    )


def _topic_name(topic: str, words: Words) -> Html:
    code = "" if topic == OUT_OF_SCOPE else f" <code>{esc(topic)}</code>"
    return Html(f"{words.topic(topic)}{code}")


def reasons(result: Evaluation, words: Words) -> Html:
    """Why what was forwarded was, and how much of it has an answer here."""
    if not result.reasons:
        return Html(f'<p class="none">{words("reasons.none")}</p>')
    most = max(result.reasons.values())
    rows = [
        f'<tr><th scope="row">{words.name("reason", code)}<code>{esc(code)}</code></th>'
        f'<td><span class="pair">{words.count(count)}{bar(count / most)}</span></td>'
        f"<td>{soft(words, result.missed.get(code, 0))}</td></tr>"
        for code, count in result.reasons.items()
    ]
    return table(words, "reasons.title", ("reasons.reason", "reasons.count", "reasons.missed"), rows)


def guards(result: Evaluation, words: Words) -> Html:
    """What each guard kept away: wrong answers, and right ones."""
    if not result.guards:
        return Html(f'<p class="none">{words("guards.none")}</p>')
    rows = [
        f'<tr><th scope="row">{words.name("guard", g.name)}<code>{esc(g.name)}</code></th>'
        f"<td>{soft(words, g.wrong)}</td><td>{soft(words, g.right)}</td><td>{soft(words, g.alone)}</td></tr>"
        for g in result.guards
    ]
    return table(
        words, "guards.title", ("guards.guard", "guards.wrong", "guards.right", "guards.alone"), rows
    )


def tools(result: Evaluation, words: Words) -> Html:
    """The gates of the tools, and how often each would have been called for, and called rightly."""
    if not result.tools:
        return Html(f'<p class="none">{words("tools.none")}</p>')
    rows = [
        f'<tr><th scope="row"><code>{esc(g.tool)}</code></th><td>{words.lang_name(g.lang)}</td>'
        f"<td>{words.and_([words.name('level', level) for level in g.level.split(', ')])}</td>"
        f"<td>{words('tools.no_gate') if g.confidence is None else f'{g.confidence:.2f}'}</td>"
        f"<td>{soft(words, g.called)}</td><td>{soft(words, g.right)}</td>"
        f"<td>{'–' if g.precision is None else words.percent(g.precision)}</td>"
        f"<td>{'–' if g.precision is None else words.percent(g.bound)}</td></tr>"
        for g in merged(result.tools)
    ]
    heads = ("tool", "lang", "level", "gate", "called", "right", "precision", "bound")
    return table(words, "tools.title", [f"tools.{head}" for head in heads], rows, "tall")


def exits(result: Evaluation, words: Words) -> Html:
    """How far the router read."""
    total = max(1, sum(result.exits.values()))
    rows = [
        f'<tr><th scope="row">{words("exits.first" if layer == "0" else "exits.layer", layer=layer)}</th>'
        f'<td><span class="pair">{words.percent(count / total)}{bar(count / total)}</span></td>'
        f"<td>{words.count(count)}</td></tr>"
        for layer, count in result.exits.items()
    ]
    return table(words, "exits.title", ("exits.where", "exits.share", "exits.count"), rows)


def sizes(subject: Subject, words: Words) -> Html:
    """Megabytes by part."""
    total = sum(subject.sizes.values())
    rows = [
        f'<tr><th scope="row">{words(f"size.{part}")}</th>'
        f'<td><span class="pair">{size / 1e6:.2f}{bar(size / max(1, total))}</span></td></tr>'
        for part, size in subject.sizes.items()
    ]
    rows.append(f'<tr class="sum"><th scope="row">{words("size.total")}</th><td>{total / 1e6:.2f}</td></tr>')
    return table(words, "size.title", ("size.part", "size.mb"), rows)
