"""One error tree, one place where it becomes JSON."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edge import errors
from edge.errors import (
    BadRequest,
    DeskError,
    FrontdeskError,
    MethodNotAllowed,
    NotReady,
    RequestError,
    error_json,
)

CLASSES = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, FrontdeskError)
]
REQUEST_CLASSES = [kind for kind in CLASSES if issubclass(kind, RequestError) and kind is not RequestError]


def test_the_docstring_draws_the_whole_tree() -> None:
    lines = [line.strip("├└─│ ").split() for line in errors.__doc__.splitlines()]
    drawn = {words[0]: words[1:] for words in lines if words}
    assert {kind.__name__ for kind in CLASSES} <= set(drawn)
    assert {kind.__name__: drawn[kind.__name__] for kind in REQUEST_CLASSES} == {
        kind.__name__: [str(kind.status)] for kind in REQUEST_CLASSES
    }


@pytest.mark.parametrize("kind", REQUEST_CLASSES)
def test_every_request_error_is_openai_shaped(kind: type[RequestError]) -> None:
    allow = {"allow": "GET"} if kind is MethodNotAllowed else {}
    body = json.loads(error_json(kind("What to do.", **allow)))
    assert body == {"error": {"message": "What to do.", "type": kind.type, "param": None, "code": kind.code}}
    assert 400 <= kind.status < 600
    assert (kind.type == "invalid_request_error") <= (kind.status < 500)


def test_codes_are_distinct() -> None:
    assert len({kind.code for kind in REQUEST_CLASSES}) == len(REQUEST_CLASSES)


def test_param_and_a_finer_code() -> None:
    error = json.loads(error_json(BadRequest("No.", "messages", "invalid_type")))["error"]
    assert (error["param"], error["code"]) == ("messages", "invalid_type")
    assert BadRequest("Other.").error_code == "invalid_request"


@given(st.text(st.characters()))
@example("\ud800")
def test_any_message_makes_valid_json(message: str) -> None:
    inner = json.loads(error_json(NotReady(message)).decode("utf-8"))["error"]
    assert inner["message"] == json.loads(json.dumps(message))


def test_a_desk_error_lists_its_problems() -> None:
    error = DeskError(["a.yaml:1: no id", "b.yaml:2: no route"])
    assert error.problems == ["a.yaml:1: no id", "b.yaml:2: no route"]
    assert str(error) == "a.yaml:1: no id\nb.yaml:2: no route"
