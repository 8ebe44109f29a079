"""Pieces of markup that the parts of a report share."""

from collections.abc import Sequence

from export.report.words import Html, Words, esc


def table(words: Words, caption: str, heads: Sequence[str], rows: Sequence[str], css: str = "") -> Html:
    """A table in a box that scrolls. ``caption`` and ``heads``: keys of texts; ``rows``: markup."""
    top = "".join(f'<th scope="col">{words(head)}</th>' for head in heads)
    return Html(
        f'<div class="scroll {css}" tabindex="0" role="region" aria-label="{words(caption)}"><table>'
        f'<caption class="unseen">{words(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def figure(
    words: Words, name: str, chart: Html, caption: Html, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Html:
    """A chart with what it says, and its figures as a folded table: ``rows`` of plain cells."""
    body = [
        f'<tr><th scope="row">{esc(first)}</th>{"".join(f"<td>{esc(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    ]
    head = f"<h3>{esc(name)}</h3>" if name else ""
    return Html(
        f"<figure>{head}{chart}<figcaption>{caption}</figcaption><details>"
        f"<summary>{words('page.as_table')}</summary>{table(words, 'page.as_table', heads, body)}"
        "</details></figure>"
    )


def without(words: Words, name: str, said: Html) -> Html:
    """In the place of a figure: why there is none."""
    head = f"<h3>{esc(name)}</h3>" if name else ""
    return Html(f'<figure>{head}<p class="none">{said}</p></figure>')


def bar(share: float) -> Html:
    """A small bar beside a number, which says the same."""
    return Html(
        f'<span class="bar" aria-hidden="true"><i style="width:{100 * min(1.0, share):.0f}%"></i></span>'
    )


def bad(words: Words, count: int) -> Html:
    """A number that should be 0."""
    return Html(f'<b class="bad">{words.count(count)}</b>') if count else soft(words, 0)


def soft(words: Words, count: int) -> Html:
    """A number whose zeros step back."""
    return words.count(count) if count else Html('<span class="zero">0</span>')
