"""A report as one HTML page: all languages in it, nothing loaded, readable without JavaScript."""

import base64
import hashlib
from pathlib import Path

from export.report import figures, sections
from export.report.steps import steps, traffic
from export.report.subject import Subject
from export.report.words import LANGS, Html, Words, esc, join

_TAGS = {"en": "en", "zh": "zh-CN"}


def render(subject: Subject) -> str:
    """The page. Equal subjects give equal pages."""
    folder = Path(__file__).parent
    # The choice stands before everything it rules, so that plain CSS can follow it.
    radios = "".join(
        f'<input class="unseen" type="radio" name="lang" id="lang-{lang}" autocomplete="off"'
        f"{' checked' if lang == LANGS[0] else ''}>"
        for lang in LANGS
    )
    labels = "".join(
        f'<label for="lang-{lang}" lang="{_TAGS[lang]}">{Words(lang)("page.own_name")}</label>'
        for lang in LANGS
    )
    script = (folder / "page.js").read_text("utf-8")
    articles = "".join(_article(subject, Words(lang, subject.titles)) for lang in LANGS)
    return (
        f'<!doctype html>\n<html lang="{_TAGS[LANGS[0]]}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{esc(subject.name)}@{esc(subject.version)} · Frontdesk</title>\n"
        f"<style>\n{(folder / 'page.css').read_text('utf-8')}</style>\n</head>\n<body>\n"
        f'{radios}\n<div class="top"><span class="brand">Frontdesk</span>'
        f'<div class="langs">{labels}</div></div>\n'
        f"{articles}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """Nothing may be loaded, and no script may run but ours: not even one that came in with the data."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def _article(subject: Subject, words: Words) -> str:
    result, scale = subject.evaluation, figures.scales(subject)
    asked = [lang for lang in subject.languages if result.total(lang).questions]
    risk = join([figures.risk_figure(subject, lang, words, scale) for lang in asked])
    mix = join([figures.mix_figure(subject, lang, words, scale) for lang in asked])
    parts: list[tuple[str, Html]] = [
        ("steps", steps(subject, words)),
        ("risk", _pair(words("risk.how", mix=traffic(subject, words)), risk)),
        ("mix", _pair(words("mix.how"), mix)),
        ("errors", sections.errors(result, words)),
        ("topics", _told(words("topics.how"), sections.topics(subject, words))),
        ("confusions", _told(words("confusions.how"), sections.confusions(subject, words))),
        ("reasons", _told(words("reasons.how"), sections.reasons(result, words))),
        ("guards", _told(words("guards.how"), sections.guards(result, words))),
        ("tools", _told(words("tools.how"), sections.tools(result, words))),
        ("reliability", _pair(words("reliability.how"), figures.reliability_figure(result, words))),
        ("speed", _speed(subject, words)),
    ]
    links = "".join(f'<li><a href="#{words.lang}-{id_}">{words(f"nav.{id_}")}</a></li>' for id_, _ in parts)
    body = "".join(
        f'<section class="part" id="{words.lang}-{id_}" data-part="{id_}">'
        f"<h2>{words(f'title.{id_}')}</h2>{content}</section>"
        for id_, content in parts
    )
    return (
        f'<main class="{words.lang}" lang="{_TAGS[words.lang]}">{_head(subject, words)}'
        f'<nav aria-label="{words("page.contents")}"><ul>{links}</ul></nav>{body}'
        f"<footer><p>{words('page.footer')}</p></footer></main>"
    )


def _head(subject: Subject, words: Words) -> Html:
    result = subject.evaluation
    counts = [
        words("page.in_lang", count=words.count(result.total(lang).questions), lang=words.lang_name(lang))
        for lang in subject.languages
    ]
    judged = words(
        "page.judged",
        count=words.count(result.total().questions),
        counts=words.and_(counts),
        file=subject.questions_file,
        day=subject.day,
    )
    return Html(
        f'<header id="{words.lang}-verdict" data-part="verdict">'
        f'<h1>{esc(subject.name)}<span class="version">@{esc(subject.version)}</span></h1>'
        f'<p class="lead">{judged}</p><h2 class="unseen">{words("title.verdict")}</h2>'
        f"{sections.verdict(subject, words)}</header>"
    )


def _told(how: Html, content: Html) -> Html:
    return Html(f'<p class="how">{how}</p>{content}')


def _pair(how: Html, content: Html) -> Html:
    return _told(how, Html(f'<div class="pairs">{content}</div>'))


def _speed(subject: Subject, words: Words) -> Html:
    result = subject.evaluation
    tables = "".join(
        f"<figure><h3>{words(f'{key}.title')}</h3>{content}<figcaption>{words(f'{key}.how')}</figcaption></figure>"
        for key, content in (
            ("exits", sections.exits(result, words)),
            ("size", sections.sizes(subject, words)),
        )
    )
    return Html(f'<div class="pairs speed">{figures.latency_figure(result, words)}{tables}</div>')
