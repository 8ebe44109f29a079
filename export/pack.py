"""Writes a bundle folder: whole or not at all."""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx

from edge.bundle import MANIFEST, ROUTER_FILE, SCHEMA_VERSION, file_sha256
from edge.errors import BundleError
from edge.normaliser import NORMALISER_VERSION, LangRule
from edge.query import fingerprint
from export.calibrate import MAX_NEEDS_CONTEXT, MAX_NEEDS_CONTEXT_IN_DIALOGUE, Calibration
from export.desk import Desk, DeskTopic
from export.encoder import Encoder
from export.guards import guard_data, topic_signals
from export.pairs import pair_data
from export.slots import slot_data
from export.tool_gates import Gate, gate_entry
from export.tools import tool_entry

_FINGERPRINT = re.compile("[0-9a-f]{16}")


def manifest_of(
    desk: Desk, base: Encoder, calibration: Calibration, gates: Sequence[Gate] = ()
) -> dict[str, Any]:
    """``frontdesk.json`` without the parts that depend on the written files."""
    guards = guard_data()
    rule = LangRule()
    return {
        "schema_version": SCHEMA_VERSION,
        "name": desk.name,
        "languages": [str(lang) for lang in desk.languages],
        "max_tokens": base.max_tokens,
        "normaliser": {
            "version": NORMALISER_VERSION,
            "traditional": base.normaliser.traditional,
            "simplified": base.normaliser.simplified,
        },
        "lang_rule": {"han_share": rule.han_share, "other_share": rule.other_share},
        "system_prompts": _fingerprints(desk),
        "public": desk.public,
        "unproven": desk.unproven,
        "risk": {"max_wrong": desk.risk.max_wrong, "confidence": desk.risk.confidence},
        "thresholds": {
            key: {
                "confidence": t.confidence,
                "margin": t.margin,
                "proven": t.proven,
                "bound": t.bound,
                "max_wrong": t.max_wrong,
            }
            for key, t in calibration.thresholds.items()
        },
        "limits": {
            "min_in_scope": 0.5,
            "max_needs_context": MAX_NEEDS_CONTEXT,
            "max_needs_context_in_dialogue": MAX_NEEDS_CONTEXT_IN_DIALOGUE,
        },
        "topics": [_topic(topic, guards, base) for topic in desk.topics],
        "tools": [
            tool_entry(tool, base.normaliser) | gate_entry(gates, tool, desk.languages) for tool in desk.tools
        ],
        "slots": slot_data(),
        "guards": guards,
        "pairs": pair_data(),
        "self_test": [],
    }


def write_bundle(
    folder: Path, desk: Desk, base: Encoder, router: onnx.ModelProto, manifest: dict[str, Any]
) -> None:
    """Write every file of a bundle into an existing folder, the manifest with their hashes last."""
    (folder / ROUTER_FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / ROUTER_FILE).write_bytes(router.SerializeToString(deterministic=True))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(base.folder / name, folder / name)
    labels = {str(i): topic.id for i, topic in enumerate(desk.topics)}
    config = base.config | {
        "architectures": ["BertForSequenceClassification"],
        "id2label": labels,
        "label2id": {topic: int(i) for i, topic in labels.items()},
        "problem_type": "single_label_classification",
    }
    _write_json(folder / "config.json", config)
    lines = [
        json.dumps(
            {
                "topic": topic.id,
                "lang": str(lang),
                "text": text,
                "tokens": base.token_count(text),
                # Keys of the exact stage; a text means the same whichever language it is answered in.
                "exact": sorted({key for t in topic.examples.get(lang, ()) if (key := _exact(base, t))}),
            },
            ensure_ascii=False,
        )
        for topic in desk.topics
        for lang, text in topic.answer.items()
    ]
    (folder / "answers.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    seal(folder, manifest)


def seal(folder: Path, manifest: dict[str, Any]) -> None:
    """Hash what the folder holds and write the manifest."""
    names = sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST
    )
    files = {name: file_sha256(folder / name) for name in names}
    content = json.dumps([{k: v for k, v in manifest.items() if k not in ("files", "version")}, files])
    version = hashlib.sha256(content.encode()).hexdigest()[:12]
    ordered = {"schema_version": SCHEMA_VERSION, "name": manifest["name"], "version": version, "files": files}
    _write_json(folder / MANIFEST, ordered | {k: v for k, v in manifest.items() if k not in ordered})


def check_target(target: Path) -> None:
    """Raise BundleError unless a bundle can stand here without the loss of anything but an older bundle."""
    try:
        above = next(path for path in target.absolute().parents if path.exists())
        if not above.is_dir():
            raise BundleError(f"{target} cannot be written: {above} is a file; choose another folder.")
        if not target.exists() and not target.is_symlink():
            return
        if not target.is_dir():
            raise BundleError(f"{target} is not a folder; choose another place for the bundle.")
        if any(target.iterdir()) and not (target / MANIFEST).is_file():
            raise BundleError(
                f"{target} holds files but no {MANIFEST}, so it is no bundle and is not replaced; "
                "choose a new or an empty folder."
            )
    except OSError as exc:
        raise BundleError(f"{target} cannot be written: {exc.strerror}.") from exc


class Staging:
    """A folder beside the target that takes its place when all went well, and is removed when not."""

    def __init__(self, target: Path) -> None:
        self.target = target.absolute()

    def __enter__(self) -> Path:
        check_target(self.target)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self._folder = self._beside("")
            self._folder.chmod(0o755)
        except OSError as exc:
            raise BundleError(f"{self.target} cannot be written: {exc.strerror}.") from exc
        return self._folder

    def __exit__(self, kind: object, failed: BaseException | None, _: object) -> None:
        try:
            if isinstance(failed, OSError):
                raise BundleError(
                    f"{self.target} could not be written ({failed.strerror or failed}); it is as it was."
                ) from failed
            if failed is None:
                try:
                    self._swap()
                except (OSError, BundleError):  # another training is in the middle of its own swap
                    self._swap()
        except OSError as exc:
            raise BundleError(
                f"{self.target} could not be replaced ({exc.strerror}); is another training writing there?"
            ) from exc
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _swap(self) -> None:
        check_target(self.target)
        old = self._beside("old-")
        try:
            if self.target.exists():
                self.target.rename(old / "bundle")
            self._folder.rename(self.target)
        except OSError:
            with suppress(OSError):  # nothing was moved, or a newer bundle stands there now
                (old / "bundle").rename(self.target)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)

    def _beside(self, kind: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f".{self.target.name}-{kind}", dir=self.target.parent))


def _topic(topic: DeskTopic, guards: Mapping[str, Any], base: Encoder) -> dict[str, Any]:
    texts = [text for examples in topic.examples.values() for text in examples]
    return {
        "id": topic.id,
        "title": dict(topic.title),
        "route": topic.route,
        "group": topic.group,
        "volatility": topic.volatility,
        "valid_until": topic.valid_until.isoformat() if topic.valid_until else None,
        "tags": list(topic.tags),
        "tools": list(topic.tools),
        "template": dict(topic.template),
        # Only what is answered here can be the wrong answer to a changed question.
        "signals": topic_signals(guards, texts, base.normaliser) if topic.answerable else None,
    }


def _fingerprints(desk: Desk) -> str | list[str]:
    """``any``, or the fingerprints of the prompts; what looks like one already is taken as it is."""
    if isinstance(desk.system_prompts, str):
        return desk.system_prompts
    return [p if _FINGERPRINT.fullmatch(p) else fingerprint(p) for p in desk.system_prompts]


def _exact(base: Encoder, text: str) -> str:
    return base.normaliser.exact(base.normaliser.reading(text))


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
