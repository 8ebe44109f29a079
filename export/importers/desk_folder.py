"""Writes a draft as a desk folder that people will go on writing by hand: whole or not at all."""

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from edge.errors import DeskError
from export.desk import DeskTopic, Question
from export.importers.draft import Draft

_REST = "topics"  # the file of the topics that belong to no group
# What YAML forbids or takes for the end of a line.
_FORBIDDEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff"
# What nobody sees, but for the joiners and selectors that emoji are made with.
_UNSEEN = "\xa0\xad\u1680\u2000-\u200c\u200e\u200f\u202a-\u202f\u205f-\u206f\U000e0000-\U0010ffff"
_NO_BLOCK = re.compile(f"[{_FORBIDDEN}]")
_ESCAPED = re.compile(f'["\\\\\t\n{_FORBIDDEN}{_UNSEEN}]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
_HEAD = """\
# Made by `frontdesk import`. Read the answers and remove what is no longer true.
name: {name}
languages: [{languages}]

# true: anybody may read the answers.
public: false

# At most 1 % of what is answered here may be wrong, at 95 % confidence.
risk: {{max_wrong: 0.01, confidence: 0.95}}

# forward: nothing is answered but exact texts, until the held-out questions prove the risk. answer: at the
# threshold with the smallest provable bound, and marked as unproven.
unproven: forward
"""


def write_desk(draft: Draft, target: Path) -> None:
    """Write the desk. Raises DeskError, and leaves nothing behind, where that cannot be done."""
    target = target.absolute()
    check_target(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            folder.chmod(0o755)
            _write(draft, folder)
            folder.rename(target)  # an empty folder gives way, one that has been filled meanwhile does not
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as exc:
        raise DeskError([f"{target}: cannot be written ({exc.strerror}); nothing was."]) from exc


def check_target(target: Path) -> None:
    """Raise DeskError unless the folder is new or empty."""
    try:
        above = next(path for path in target.absolute().parents if path.exists())
        if not above.is_dir():
            raise DeskError([f"{target}: {above} is no folder; choose another place with -o."])
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            raise DeskError([f"{target}: there is something that is no folder; choose a new one with -o."])
        if target.exists() and any(target.iterdir()):
            raise DeskError([f"{target}: the folder is not empty; choose a new one with -o."])
    except OSError as exc:
        raise DeskError([f"{target}: cannot be written ({exc.strerror}); choose another with -o."]) from exc


def _write(draft: Draft, folder: Path) -> None:
    languages = ", ".join(draft.languages)
    (folder / "desk.yaml").write_text(_HEAD.format(name=quoted(draft.name), languages=languages), "utf-8")
    (folder / "topics").mkdir()
    for name, topics in _files(draft.topics).items():
        text = "\n".join(topic_yaml(topic) for topic in topics)
        (folder / "topics" / f"{name}.yaml").write_text(text, "utf-8", newline="\n")
    (folder / "eval").mkdir()
    for name, questions in (("calibrate", draft.calibrate), ("test", draft.test)):
        text = "".join(f"{_row(question)}\n" for question in questions)
        (folder / "eval" / f"{name}.jsonl").write_text(text, "utf-8", newline="\n")


def _files(topics: Iterable[DeskTopic]) -> dict[str, list[DeskTopic]]:
    """File name → topics: those whose ids begin alike (``faq.``) together, the others in one file."""
    topics = list(topics)
    groups = Counter(topic.id.partition(".")[0] for topic in topics if "." in topic.id)
    files: dict[str, list[DeskTopic]] = {}
    for topic in topics:
        group = topic.id.partition(".")[0]
        files.setdefault(group if groups[group] > 1 and "." in topic.id else _REST, []).append(topic)
    return files


def topic_yaml(topic: DeskTopic) -> str:
    """A topic as people write it: quoted texts, one a line, and the answer as a block."""
    title = next(iter(topic.title.values()))
    lines = [
        f"- id: {quoted(topic.id)}",
        f"  title: {quoted(title)}",
        f"  route: {topic.route}",
        "  examples:",
    ]
    for lang, texts in topic.examples.items():
        lines.append(f"    {lang}:")
        lines += [f"      - {quoted(text)}" for text in texts]
    if topic.answer:
        lines.append("  answer:")
        lines += [f"    {lang}: {_answer(text)}" for lang, text in topic.answer.items()]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """A text in double quotes, on one line, with what nobody could see written as an escape."""
    return f'"{_ESCAPED.sub(lambda found: _escape(found[0]), text)}"'


def _escape(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _answer(text: str) -> str:
    """A block scalar; a quoted text where a block would not keep every character."""
    lines = text.split("\n")
    if _NO_BLOCK.search(text) or any(line and not line.strip() for line in lines) or text != text.strip():
        return quoted(text)
    return "|\n" + "\n".join(f"      {line}" if line else "" for line in lines)


def _row(question: Question) -> str:
    row = {"text": question.text, "topic": question.topic, "lang": question.lang, "kind": question.kind}
    return json.dumps(row, ensure_ascii=False)
