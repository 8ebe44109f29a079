"""Arguments against a JSON Schema, as far as tools need it: one flat object of simple values.

A keyword that is not read here is refused when the agent starts: it would promise a check that nobody makes.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_OBJECT = {"type", "properties", "required", "additionalProperties"}
_VALUE = {"type", "enum", "pattern", "minimum", "maximum", "description"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
_MAX_TEXT = 500


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ValueError for a schema that ``problems`` could not hold arguments to."""
    properties = schema.get("properties", {})
    unknown = schema.keys() - _OBJECT or {key for each in properties.values() for key in each.keys() - _VALUE}
    if unknown:
        raise ValueError(f"the keyword {min(unknown)!r} is not read; known are {sorted(_OBJECT | _VALUE)}")
    if schema.get("type") != "object" or not properties.keys() >= set(schema.get("required", ())):
        raise ValueError("the schema must be of type object, with a property for all that is required")
    for name, each in properties.items():
        if each.get("type") not in _TYPES:
            raise ValueError(f"the type of {name!r} must be one of {sorted(_TYPES)}")
        try:
            re.compile(each.get("pattern", ""))
        except re.error as error:
            raise ValueError(f"the pattern of {name!r} is none: {error}") from None


def problems(schema: Mapping[str, Any], arguments: object) -> Iterator[str]:
    """What is wrong with the arguments, each in a sentence that an LLM can act on."""
    if not isinstance(arguments, Mapping):
        yield "The arguments must be an object."
        return
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in arguments:
            yield f"{name} is missing."
    for name, value in arguments.items():
        if name not in properties:
            yield f"There is no argument {str(name)[:40]}; there are {', '.join(properties) or 'none'}."
        elif wrong := _wrong(properties[name], value):
            yield f"{name} must {wrong}."


def _wrong(schema: Mapping[str, Any], value: object) -> str | None:
    """What a value must be and is not."""
    kind = schema["type"]
    # True is an int to Python, and to no tool.
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return f"be of type {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"be one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, str):
        if len(value) > _MAX_TEXT:
            return f"have at most {_MAX_TEXT} characters"
        if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
            return f"match {schema['pattern']}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            return "be a number"
        if not schema.get("minimum", -math.inf) <= value <= schema.get("maximum", math.inf):
            return f"lie between {schema.get('minimum', 'any')} and {schema.get('maximum', 'any')}"
    return None


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as OpenAI's strict mode wants it: every property required, an optional one may be null."""
    required = set(schema.get("required", ()))
    properties = {
        name: dict(each) if name in required else {"anyOf": [dict(each), {"type": "null"}]}
        for name, each in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
