"""Material becomes a desk: what cannot be used is left out and said, the rest gets ids and sides."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edge.errors import DeskError
from edge.normaliser import Lang, Normaliser
from edge.query import MAX_CHARACTERS
from export.desk import DESK_NAME, OUT_OF_SCOPE, DeskTopic, Question
from export.importers.holdout import Candidate, hold_out
from export.importers.ids import topic_ids
from export.importers.material import LeftOut, Material, Reply, Said, Side, short

EVAL_SHARE = 0.2
_FEW = 0.05  # a language with a smaller share of the examples is more likely a few stray texts


@dataclass(frozen=True, slots=True)
class Draft:
    """A desk before it is written. ``notes``: what its owner should look at."""

    name: str
    languages: tuple[Lang, ...]
    topics: tuple[DeskTopic, ...]
    calibrate: tuple[Question, ...]
    test: tuple[Question, ...]
    left: tuple[LeftOut, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    """What somebody said, with its reading form, its exact key and its language."""

    said: Said
    reading: str
    key: str
    lang: Lang
    side: Side = Side.TRAIN

    @property
    def topic(self) -> str:
        return self.said.topic

    @property
    def may_move(self) -> bool:
        """Whether it may be held out though the file does not say so."""
        return self.side is Side.TRAIN and not self.said.asked

    @property
    def text(self) -> str:
        return self.said.text.strip()


def desk_name(path: Path) -> str:
    """A desk's name out of a file's."""
    name = re.sub(r"[^A-Za-z0-9 _.-]+", "-", path.stem).strip(" _.-")[:64]
    return name if DESK_NAME.fullmatch(name) else "desk"


def draft_desk(
    material: Material, source: Path, name: str, lang: Lang | None = None, share: float = EVAL_SHARE
) -> Draft:
    """The desk that a file makes. Raises DeskError where nothing is left of it.

    ``lang``: the only language of the desk. ``share``: how much of a topic's examples is held out.
    """
    return _Drafter(material, lang).draft(source, name, share)


class _Drafter:
    def __init__(self, material: Material, only: Lang | None) -> None:
        self.material = material
        self.only = only
        self.normaliser = Normaliser()
        self.left = list(material.left)
        self.notes: list[str] = []

    def draft(self, source: Path, name: str, share: float) -> Draft:
        texts = self._with_examples(self._once(self._in_one_topic(self._readable())))
        texts = self._placed(texts, share)
        examples: dict[str, dict[Lang, list[str]]] = defaultdict(lambda: defaultdict(list))
        for text in texts:
            if text.side is Side.TRAIN:
                examples[text.topic][text.lang].append(text.text)
        if not examples:
            raise self._nothing_of(source)
        ids = topic_ids({key: title for key, title in self.material.titles.items() if key in examples})
        answers = self._answers(examples)
        used = Counter(text.lang for text in texts if text.side is Side.TRAIN)
        languages = tuple(lang for lang in (Lang.EN, Lang.ZH) if used[lang])
        topics = tuple(
            DeskTopic(
                id=ids[key],
                title=dict.fromkeys(languages, self._title(key)),
                route="answer" if answers[key] else "agent",
                examples={lang: tuple(examples[key][lang]) for lang in languages if lang in examples[key]},
                answer={lang: answers[key][lang] for lang in languages if lang in answers[key]},
            )
            for key in ids
        )
        ids[OUT_OF_SCOPE] = OUT_OF_SCOPE
        held = {side: [_question(text, ids) for text in texts if text.side is side] for side in Side}
        self._note(ids, topics, used)
        self.notes += [f"there are no questions for eval/{side}.jsonl." for side in Side if not held[side]]
        return Draft(
            name=name,
            languages=languages,
            topics=topics,
            calibrate=tuple(held[Side.CALIBRATE]),
            test=tuple(held[Side.TEST]),
            left=tuple(self.left),
            notes=tuple(self.notes),
        )

    def _nothing_of(self, source: Path) -> DeskError:
        reasons = Counter(left.reason for left in self.left)
        told = "".join(f" {count} times: {reason}." for reason, count in reasons.most_common(5))
        if any(said.side not in (None, Side.TRAIN) for said in self.material.said):
            told += " Without its splits the import would hold out questions itself."
        return DeskError([f"{source}: nothing in this file can be an example of a topic.{told}"])

    def _leave(self, reason: str, said: Said | Reply, more: str = "") -> None:
        self.left.append(LeftOut(reason, said.where, short(said.text.strip()) + more))

    def _readable(self) -> list[_Text]:
        """The texts that the router will be able to read, each with its language."""
        readings = [(said, self.normaliser.reading(said.text)) for said in self.material.said]
        ruled = [self.normaliser.lang(reading) for _, reading in readings]
        by_topic: dict[str, Counter[Lang]] = defaultdict(Counter)
        everywhere: Counter[Lang] = Counter()
        for (said, _), lang in zip(readings, ruled, strict=True):
            if lang is not None:
                by_topic[said.topic][lang] += 1
                everywhere[lang] += 1
        found = []
        for (said, reading), lang in zip(readings, ruled, strict=True):
            key = self.normaliser.exact(reading)
            if lang is None and (said.side or Side.TRAIN) is not Side.TRAIN:
                lang = said.lang  # in another script a question is a fair test, an example is none
            if lang is None and not any(char.isalpha() for char in reading):  # 1024, 👍
                lang = said.lang or self.only or _main(by_topic[said.topic]) or _main(everywhere)
            if not reading or not (key or said.topic == OUT_OF_SCOPE):
                self._leave("nothing but space or punctuation", said)
            elif len(said.text) > MAX_CHARACTERS:
                self._leave(f"longer than {MAX_CHARACTERS:,} characters, which is all that is read", said)
            elif lang is None:
                self._leave("neither Chinese nor English letters", said)
            elif self.only not in (None, lang):
                self._leave(f"not in the language of --lang {self.only}", said, f" ({lang})")
            else:
                found.append(_Text(said, reading, key, lang, said.side or Side.TRAIN))
        return found

    def _in_one_topic(self, texts: Iterable[_Text]) -> list[_Text]:
        """The texts that stand under one topic only: which of two is right, nobody here can know."""
        texts = list(texts)
        topics: dict[str, dict[str, None]] = defaultdict(dict)
        for text in texts:
            topics[text.key].setdefault(text.topic)
        found = []
        for text in texts:
            rivals = [short(self._title(topic)) for topic in topics[text.key]]
            if len(rivals) == 1:
                found.append(text)
            elif all(self._key(self._title(topic)) == text.key for topic in topics[text.key]):
                self._leave("one question with several answers, so it is under none of them", text.said)
            else:
                self._leave(
                    "a conflict: one text under several topics, so it is under none of them",
                    text.said,
                    f" is in {' and '.join(rivals[:4])}",
                )
        return found

    def _once(self, texts: Iterable[_Text]) -> list[_Text]:
        """Each text once: an example is no held-out question, a test question sets no threshold."""
        texts = list(texts)
        kept: dict[str, Side] = {}
        found = []
        for side in (Side.TRAIN, Side.TEST, Side.CALIBRATE):
            for at, text in enumerate(texts):
                if text.side is not side:
                    continue
                if text.key not in kept:
                    kept[text.key] = side
                    found.append(at)
                elif kept[text.key] is side:
                    self._leave("the same text again, but for case and punctuation", text.said)
                else:
                    self._leave(
                        f"a held-out question that is among the {kept[text.key]} texts too", text.said
                    )
        return [texts[at] for at in sorted(found)]

    def _with_examples(self, texts: Iterable[_Text]) -> list[_Text]:
        """The texts of topics that have an example; others cannot be learnt."""
        texts = list(texts)
        learnt = {text.topic for text in texts if text.side is Side.TRAIN} | {OUT_OF_SCOPE}
        for text in texts:
            if text.topic not in learnt:
                self._leave(f"a {text.side} question whose topic has no example", text.said)
        found = [text for text in texts if text.topic in learnt]
        for key, title in self.material.titles.items():
            if key not in learnt:
                self.left.append(LeftOut("a topic without any example left", "", short(title)))
        return found

    def _placed(self, texts: list[_Text], share: float) -> list[_Text]:
        """Each text on its side. A side that the file gives is taken as given; one that it lacks is cut."""
        given = {text.side for text in texts if text.topic != OUT_OF_SCOPE}
        lacking = [side for side in (Side.CALIBRATE, Side.TEST) if side not in given]
        moving = texts  # in whose light it is decided who moves
        if not lacking or not share:
            moving = [text for text in texts if text.topic == OUT_OF_SCOPE]
        candidates = [
            Candidate(text.reading, text.topic, text.lang, text.may_move, text.side) for text in moving
        ]
        sides = hold_out(candidates, share * len(lacking) / 2, lacking or [Side.CALIBRATE])
        placed = {text.key: side for text, side in zip(moving, sides, strict=True)}
        return [replace(text, side=placed.get(text.key, text.side)) for text in texts]

    def _answers(self, examples: dict[str, dict[Lang, list[str]]]) -> dict[str, dict[Lang, str]]:
        """The answers of each topic, by language: their own where somebody asks in it, else the askers'."""
        found: dict[str, dict[Lang, str]] = defaultdict(dict)
        for reply in self.material.replies:
            asked = examples.get(reply.topic)
            if not asked:
                self._leave("an answer whose topic has no example", reply)
                continue
            text = reply.text.replace("\r\n", "\n").replace("\r", "\n").strip()
            ruled = self.normaliser.lang(self.normaliser.reading(text))
            main = _main(Counter({lang: len(texts) for lang, texts in asked.items()}))
            lang = next(lang for lang in (reply.lang, ruled, main) if lang in asked)
            if lang is not None and found[reply.topic].setdefault(lang, text) != text:
                self._leave("another wording of an answer; the first is kept", reply)
        return found

    def _key(self, text: str) -> str:
        return self.normaliser.exact(self.normaliser.reading(text))

    def _title(self, topic: str) -> str:
        return self.material.titles.get(topic, topic)

    def _note(self, ids: dict[str, str], topics: Sequence[DeskTopic], used: Counter[Lang]) -> None:
        by_case: dict[str, list[str]] = defaultdict(list)
        for key in ids:
            by_case[self._title(key).casefold()].append(key)
        self.notes += [
            f"{' and '.join(short(self._title(key)) for key in same)} differ in case only and are the topics "
            f"{' and '.join(ids[key] for key in same)}: merge them if they mean the same."
            for same in by_case.values()
            if len(same) > 1
        ]
        silent = sum(topic.route == "agent" for topic in topics)
        if silent:
            self.notes.append(f"{silent} topics have no answer, so their questions go to the agent.")
        for lang, count in used.items():
            if count < _FEW * used.total():
                other = next(found for found in used if found is not lang)
                self.notes.append(
                    f"{count} of {used.total()} examples are in {lang}; --lang {other} leaves them out."
                )


def _question(text: _Text, ids: dict[str, str]) -> Question:
    kind = "out_of_scope" if text.topic == OUT_OF_SCOPE else "in_scope"
    return Question(text.text, ids[text.topic], text.lang, kind)


def _main(counts: Counter[Lang]) -> Lang | None:
    """The most frequent language, the first of equals."""
    return counts.most_common(1)[0][0] if counts else None
