"""What is wrong with a template, as far as the desk tells: its syntax, its tools, its slots."""

from collections.abc import Iterable, Iterator, Mapping

from edge.templates import Template


def template_problems(text: str, tools: Mapping[str, object]) -> Iterator[str]:
    """What is wrong with a topic's template. ``tools``: what the topic names, each with its declaration."""
    try:
        template = Template.parse(text)
    except ValueError as exc:
        yield f"cannot be read: {exc}"
        return
    slots = {name for tool in tools.values() for name in _slots(tool)}
    for path in sorted(template.paths):
        field = f"{{{'.'.join(path)}}}"
        if path[0] != "slots":
            if path[0] not in tools:
                yield f"holds {field}, and the topic names no such tool; {_there_are('its tools', tools)}"
        elif len(path) != 2:
            yield f"holds {field}, and a slot is one value; write {{slots.NAME}}"
        elif path[1] not in slots:
            yield f"holds {field}, and its tools have no such slot; {_there_are('their slots', slots)}"
    if tools and not template.fields - {"slots"}:
        yield f"shows nothing of a result; a field is {{{next(iter(tools))}.NAME}}, in single braces"


def _slots(tool: object) -> Iterator[str]:
    slots = tool.get("slots") if isinstance(tool, Mapping) else None
    yield from map(str, slots if isinstance(slots, Mapping) else ())


def _there_are(what: str, names: Iterable[str]) -> str:
    return f"{what} are {', '.join(sorted(names))}" if names else f"{what} are none"
