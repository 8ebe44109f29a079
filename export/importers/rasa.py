"""Rasa's YAML (2 and 3): intents with their examples, and responses as their answers."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from edge.errors import DeskError
from export.importers.material import Material, Reply, Said, is_text, short
from export.importers.source import Source
from export.located import Located, LocatedList, parse_yaml

_UTTER = "utter_"
_ASIDE = ("regex", "synonym", "lookup")
_READ = {"version", "nlu", "responses"}
# [text](entity), [text](entity:value), [text]{"entity": …} and [text][{…}, {…}]
_ENTITY = re.compile(r"\[([^\[\]]+)\](?:\([^()]*\)|\{[^{}]*\}|\[\{[^\[\]]*\}\])")
_SLOT = re.compile(r"\{\w+\}")
# What a response may hold beside its text without the text being only a part of it.
_MORE = "a response that is more than a text (buttons, images, conditions, …)"
_PLAIN = {"text", "metadata", "id"}
# Their responses tell the user that nothing could be done, and the agent could.
_FALLBACKS = {"out_of_scope", "nlu_fallback", "fallback", "default"}


def read(source: Source) -> Material:
    """The intents of a file, with the responses in it."""
    material = Material()
    data = _mapping(source)
    blocks = data.get("nlu")
    if not isinstance(blocks, LocatedList):
        raise DeskError(
            [
                f"{source.path}:{data.line_of('nlu')}: expected a list under 'nlu'; a file that has only "
                "responses goes with --answers."
            ]
        )
    aside: Counter[str] = Counter()
    for line, block in zip(blocks.lines, blocks, strict=True):
        where = f"{source.path}:{line}"
        kind = next((kind for kind in _ASIDE if isinstance(block, Located) and kind in block), None)
        if kind is not None:
            aside[kind] += 1
            if aside[kind] == 1:
                material.leave(f"{kind} blocks, which a desk does without", where, short(block[kind]))
        elif not isinstance(block, Located) or not is_text(block.get("intent")):
            material.problems.append(
                f"{where}: expected '- intent: NAME' with 'examples', got {short(block)}."
            )
        else:
            _intent(block, source, material)
    for key in (key for key in data if key not in _READ):
        material.leave("a key that is not read", f"{source.path}:{data.line_of(key)}", short(key))
    _responses(data, source, material)
    return material.whole()


def add_answers(material: Material, source: Source) -> None:
    """The responses of another file, such as domain.yml, as answers to the intents of the first."""
    data = _mapping(source)
    if "responses" not in data:
        raise DeskError([f"{source.path}:1: there are no 'responses' in this file."])
    _responses(data, source, material)
    material.whole()


def _mapping(source: Source) -> Located:
    data = parse_yaml(source.text, source.path, aliases=False)
    if not isinstance(data, Located):
        raise DeskError([f"{source.path}:1: expected a mapping with 'nlu' or 'responses'."])
    return data


def _intent(block: Located, source: Source, material: Material) -> None:
    name = block["intent"].strip()
    topic = material.intent(name)
    for line, text in _examples(block, source, material):
        material.said.append(Said(_ENTITY.sub(r"\1", text), topic, f"{source.path}:{line}"))


def _examples(block: Located, source: Source, material: Material) -> Iterator[tuple[int, str]]:
    """(line, text) of each example of an intent: a block of lines with dashes, or a list."""
    found, line = block.get("examples"), block.line_of("examples")
    if isinstance(found, str):
        for number, text in enumerate(found.splitlines(), line + 1):
            if text.strip().startswith("-"):
                yield number, text.strip()[1:].strip()
            elif text.strip() and not text.lstrip().startswith("#"):
                material.leave("a line without '- ' before it", f"{source.path}:{number}", short(text))
    elif isinstance(found, LocatedList):
        for number, item in zip(found.lines, found, strict=True):
            said = item.get("text") if isinstance(item, Located) else item
            if isinstance(said, str):
                lines = [line.strip() for line in said.splitlines()]
                dashed = [line[1:].strip() for line in lines if line.startswith("-")]
                yield from ((number, text) for text in dashed or [said.strip()])
            else:
                material.problems.append(
                    f"{source.path}:{number}: an example must be a text, got {short(item)}."
                )
    elif found is not None:
        material.problems.append(
            f"{source.path}:{line}: 'examples' must be a block ('examples: |') or a list, got {short(found)}."
        )


def _responses(data: Located, source: Source, material: Material) -> None:
    found = data.get("responses")
    if found is None:
        return
    if not isinstance(found, Located):
        line = data.line_of("responses")
        material.problems.append(f"{source.path}:{line}: 'responses' must map utter_NAME to a list of texts.")
        return
    for name, wordings in found.items():
        where = f"{source.path}:{found.line_of(str(name))}"
        topic = str(name).removeprefix(_UTTER)
        if not isinstance(wordings, LocatedList):
            material.problems.append(f"{where}: {short(name)} must hold a list of '- text: …'.")
        elif topic not in material.titles or not str(name).startswith(_UTTER):
            material.leave("a response that bears no intent's name", where, short(name))
        elif topic in _FALLBACKS:
            material.leave("the response of a fallback: the agent can do better", where, short(name))
        else:
            for line, wording in zip(wordings.lines, wordings, strict=True):
                _reply(wording, topic, f"{source.path}:{line}", material)


def _reply(wording: Any, topic: str, where: str, material: Material) -> None:  # noqa: ANN401 - unchecked yet
    text = wording.get("text") if isinstance(wording, Located) else None
    if not isinstance(text, str) or not text.strip() or wording.keys() - _PLAIN:
        material.leave(_MORE, where, short(topic))
    elif _SLOT.search(text):
        material.leave("a response with slots, which only Rasa can fill", where, short(text))
    else:
        material.replies.append(Reply(text, topic, where))
