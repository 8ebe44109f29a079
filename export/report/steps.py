"""What to do next, computed from the figures: the promise first, then errors, then answers that are lost."""

import math
from collections import Counter
from collections.abc import Iterator

from export.desk import FOLLOW_UP
from export.report.figures import lean, off
from export.report.subject import Promise, Subject
from export.report.words import Html, Words, esc
from export.risk import upper_bound

MOST = 3  # names in a sentence
FEW = 100  # questions of a language under which a share is rough
WEAK = 0.6  # a topic that is found less often wants examples
BOLD = 0.05


def steps(subject: Subject, words: Words) -> Html:
    """The advice as a list, the most urgent first."""
    said = [
        *_promises(subject, words),
        *_broken(subject, words),
        *_errors(subject, words),
        *_missed(subject, words),
        *_weak(subject, words),
        *_guards(subject, words),
        *_confusions(subject, words),
        *_rough(subject, words),
    ]
    if not said:
        return Html(f'<p class="none">{words("steps.nothing")}</p>')
    return Html(f'<ol class="steps">{"".join(said)}</ol>')


def _step(words: Words, key: str, **values: object) -> str:
    return f"<li><h3>{words(f'steps.{key}_head', **values)}</h3><p>{words(f'steps.{key}', **values)}</p></li>"


def _promises(subject: Subject, words: Words) -> Iterator[str]:
    for lang in subject.languages:
        for promise in subject.promises_of(lang):
            if not promise.proven:
                yield _promise(subject, promise, words)


def _promise(subject: Subject, promise: Promise, words: Words) -> str:
    owner = promise.key.rpartition("/")[0]
    topic = owner.removeprefix("topic:")
    of = words.quoted_topic(topic) if owner != topic else Html(f"“{esc(owner)}”") if owner else ""
    lang = words.lang_name(promise.lang)
    values = {
        "what": words("steps.of", lang=lang, of=of) if of else lang,
        "rate": words.percent(promise.max_wrong),
        "wrong": words.count(promise.wrong),
        "answered": words.count(promise.answered),
    }
    if promise.to_prove:
        return _step(
            words, "prove", count=words.count(promise.to_prove), mix=traffic(subject, words), **values
        )
    if not promise.answered:
        return _step(words, "calibrate", **values)
    suggested = math.ceil(promise.bound * 200) / 200
    return _step(
        words,
        "mend",
        share=words.percent(promise.wrong / promise.answered),
        suggested=words.percent(suggested),
        **values,
    )


def traffic(subject: Subject, words: Words) -> Html:
    """The shares that curves and bounds hold for."""
    if not subject.stated.traffic:
        return words("page.as_asked")
    return words.and_(
        [
            Html(f"{words.percent(share)} {words.name('kind', name)}")
            for name, share in subject.stated.traffic.items()
            if share
        ]
    )


def _broken(subject: Subject, words: Words) -> Iterator[str]:
    """A proven rate that this file contradicts, by more than chance."""
    confidence = subject.stated.confidence
    for lang, sample in subject.evaluation.samples.items():
        promise = next((p for p in subject.promises_of(lang) if p.key == lang and p.proven), None)
        if promise is None or not sample.wrong:
            continue
        at_least = 1 - upper_bound(sample.answered - sample.wrong, sample.answered, confidence)
        if at_least > promise.max_wrong:
            yield _step(
                words,
                "broken",
                lang=words.lang_name(lang),
                rate=words.percent(promise.max_wrong),
                wrong=words.count(sample.wrong),
                answered=words.count(sample.answered),
                at_least=words.percent(at_least),
            )


def _errors(subject: Subject, words: Words) -> Iterator[str]:
    errors = subject.evaluation.errors
    sorts = Counter(
        "follow_up"
        if error["kind"] == FOLLOW_UP
        else "mixed"
        if error["topic"] in subject.answerable
        else "outside"
        for error in errors
    )
    total = words.count(len(errors))
    for sort, count in sorts.most_common():
        yield _step(words, sort, count=words.count(count), total=total)
    blamed = [
        (topic, n) for topic, n in Counter(e["answered_with"] for e in errors).most_common(MOST) if n > 1
    ]
    if blamed:
        named = [words("steps.times", topic=words.quoted_topic(t), count=words.count(n)) for t, n in blamed]
        yield _step(words, "blamed", topics=words.and_(named), total=total)


def _missed(subject: Subject, words: Words) -> Iterator[str]:
    missed = subject.evaluation.missed
    if not missed:
        return
    reason, count = max(missed.items(), key=lambda item: item[1])
    total = sum(missed.values())
    key = (
        reason
        if reason in ("low_confidence", "out_of_scope", "unproven", "needs_context")
        else "other_reason"
    )
    yield _step(
        words,
        key,
        reason=words.name("reason", reason),
        count=words.count(count),
        total=words.count(total),
    )


def _weak(subject: Subject, words: Words) -> Iterator[str]:
    """Topics with an answer here that are asked often enough to tell, and are often not recognised."""
    weak = [
        row
        for row in subject.evaluation.topics
        if row.topic in subject.answerable and row.questions >= 5 and row.found < WEAK * row.questions
    ]
    weak.sort(key=lambda row: (row.found / row.questions, row.topic))
    if weak:
        named = [
            words(
                "steps.found_of",
                topic=words.quoted_topic(row.topic),
                found=words.count(row.found),
                asked=words.count(row.questions),
            )
            for row in weak[:MOST]
        ]
        yield _step(words, "weak", count=words.count(len(weak)), topics=words.and_(named))


def _guards(subject: Subject, words: Words) -> Iterator[str]:
    dear = [g for g in subject.evaluation.guards if g.right >= MOST and g.right > g.wrong]
    dear.sort(key=lambda g: g.wrong - g.right)
    if not dear:
        return
    first = dear[0]
    named = [
        words(
            "steps.guard_cost",
            guard=words.name("guard", g.name),
            right=words.count(g.right),
            wrong=words.count(g.wrong),
        )
        for g in dear[:MOST]
    ]
    yield _step(
        words,
        "guards",
        guard=words.name("guard", first.name),
        right=words.count(first.right),
        guards=Html(words("steps.semicolon").join(named)),
    )


def _confusions(subject: Subject, words: Words) -> Iterator[str]:
    """The topics that are most often taken for others, each with these."""
    by_topic: dict[str, list[tuple[str, int]]] = {}
    for c in subject.evaluation.confusions:
        if c.count > 1:
            by_topic.setdefault(c.topic, []).append((c.taken_for, c.count))
    worst = sorted(by_topic.items(), key=lambda item: (-sum(n for _, n in item[1]), item[0]))[:MOST]
    named = [
        words(
            "steps.taken_for",
            topic=words.quoted_topic(topic),
            others=words.and_(
                [
                    words("steps.times", topic=words.quoted_topic(t), count=words.count(n))
                    for t, n in others[:MOST]
                ]
            ),
        )
        for topic, others in worst
    ]
    if named:
        yield _step(words, "confusions", pairs=Html(words("steps.semicolon").join(named)))


def _rough(subject: Subject, words: Words) -> Iterator[str]:
    for lang in subject.languages:
        count = subject.evaluation.total(lang).questions
        if count < FEW:
            yield _step(words, "few", lang=words.lang_name(lang), count=words.count(count))
    if lean(subject.evaluation) == "bold" and off(subject.evaluation) > BOLD:
        yield _step(words, "bold", off=words.percent(off(subject.evaluation)))
