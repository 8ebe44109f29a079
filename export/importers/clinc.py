"""JSON in the shape of CLINC150: splits, each a list of [text, intent]."""

import json
from typing import Any

from edge.errors import DeskError
from export.desk import OUT_OF_SCOPE
from export.importers.material import Material, Said, is_text, short, side_of
from export.importers.source import Source

_OOS = f"{OUT_OF_SCOPE}_"


def read(source: Source) -> Material:
    """The texts of every split; those of ``oos_…`` are out of scope."""
    material = Material()
    data = _object(source)
    for name, rows in data.items():
        scope = name.removeprefix(_OOS)
        side = side_of(scope)
        where = f"{source.path}: {short(name)}"
        if side is None:
            material.leave("a key that is not read", str(source.path), short(name))
        elif not isinstance(rows, list):
            material.problems.append(f"{where} must be a list of [text, intent], got {short(rows)}.")
        else:
            for at, row in enumerate(rows):
                here = f"{source.path}: {name}[{at}]"
                if not isinstance(row, list) or len(row) != 2 or not all(is_text(cell) for cell in row):
                    material.problems.append(f"{here}: expected [text, intent], two texts, got {short(row)}.")
                    continue
                intent = OUT_OF_SCOPE if scope != name else material.intent(row[1])
                material.said.append(Said(row[0], intent, here, side))
    if not material.said and not material.problems:
        material.problems.append(
            f'{source.path}: there are no texts; expected {{"train": [[text, intent], …], "val": …, '
            f'"test": …, "oos_test": …}}, got the keys {short(list(data))}.'
        )
    return material.whole()


def _object(source: Source) -> dict[str, Any]:
    try:
        value = json.loads(source.text, object_pairs_hook=_once)
    except json.JSONDecodeError as exc:
        raise DeskError([f"{source.path}:{exc.lineno}: not valid JSON: {exc.msg}."]) from exc
    except ValueError as exc:
        raise DeskError([f"{source.path}: not valid JSON: {exc}."]) from exc
    except RecursionError as exc:
        raise DeskError([f"{source.path}: nested too deeply."]) from exc
    if not isinstance(value, dict):
        raise DeskError(
            [
                f"{source.path}:1: expected a JSON object with the splits train, val and test, got a "
                f"{type(value).__name__}; of a list, make JSON lines: jq -c '.[]' FILE > FILE.jsonl."
            ]
        )
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {short(key)} stands twice")
        found[key] = value
    return found
