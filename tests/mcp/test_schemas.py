"""Names and schemas that every provider takes, whatever a server says."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jupyter_agent.core.messages import ToolSpec
from jupyter_agent.llm.code_protocol import signature
from jupyter_agent.mcp.names import tool_name
from jupyter_agent.mcp.schemas import ANYTHING, misfits, usable_schema

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "$ref", "$defs", "items", "enum", "required", "anyOf", "pattern"]
)
LIKE_SCHEMAS = st.recursive(
    st.sampled_from(["object", "string", "#/$defs/a", "a", "(", True, 1, None]),
    lambda inner: st.lists(inner) | st.dictionaries(KEYWORDS | st.just("a"), inner),
    max_leaves=20,
)


@given(st.lists(st.tuples(st.text(), st.text()), max_size=30))
def test_names(pairs: list[tuple[str, str]]) -> None:
    """Names are always valid and unique, and one `__` ends the server's part."""
    taken: set[str] = set()
    for server, tool in pairs:
        name = tool_name(server, tool, taken)
        assert VALID.fullmatch(name)
        assert name not in taken
        assert name.index("__") > 0
        taken.add(name)


def test_known_names() -> None:
    """Short plain names stay unchanged."""
    assert tool_name("files", "read", ()) == "files__read"
    assert tool_name("my files", "a.b", ()) == "my_files__a_b"
    assert tool_name("my files", "a.b", {"my_files__a_b"}).startswith("my_files__a_b_")
    assert tool_name("evil__own", "x", ()) == "evil_own__x"


@given(JSON | LIKE_SCHEMAS | st.dictionaries(KEYWORDS, LIKE_SCHEMAS))
def test_schemas(given: Any) -> None:
    """Any schema becomes a valid one of type object, without an exception."""
    schema, _ = usable_schema(given)
    assert schema["type"] == "object"
    Draft202012Validator.check_schema(schema)
    json.dumps(schema, allow_nan=False).encode("utf-8")
    list(misfits(schema, {"a": 1}))


def test_a_good_schema_is_kept() -> None:
    """Types, choices, references and descriptions stay; titles and dialects are removed."""
    given = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "T",
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "words \x1b[31m\u202e"},
            "kind": {"enum": ["a", "b"]},
            "where": {"$ref": "#/$defs/where"},
        },
        "required": ["title"],
        "$defs": {"where": {"type": "string"}},
    }
    schema, problem = usable_schema(given)
    assert problem == ""
    assert "$schema" not in schema and "title" not in schema
    assert set(schema["properties"]) == {"title", "kind", "where"}
    assert "\x1b" not in json.dumps(schema) and "<U+202E>" in json.dumps(schema)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "object",
        [],
        {"type": "string"},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a b": {}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}},
        {"type": "object", "properties": {"a": {"$ref": "other.json"}}},
        {"type": "object", "properties": {"a": {"pattern": "("}}},
        {"type": "object", "properties": {"a": {"pattern": "a{99999999999999999999}"}}},
        {"type": "object", "properties": {"a": {"patternProperties": {"(": {}}}}},
        {"type": "object", "properties": {"a": {"default": float("nan")}}},
        {"type": "object", "description": "x" * 30_000},
        json.loads('{"items":' * 60 + "{}" + "}" * 60),
    ],
)
def test_bad_schemas_are_replaced(given: Any) -> None:
    """An unusable schema becomes any object, with a reason."""
    schema, problem = usable_schema(given)
    assert schema == ANYTHING
    assert problem.startswith("its schema")


def test_alternatives_on_top_are_left_out() -> None:
    """Alternatives at the top, which providers refuse beside properties, are left out."""
    schema, problem = usable_schema(
        {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}
    )
    assert schema == {"type": "object", "properties": {"a": {}}}
    assert "anyOf" in problem


def test_misfits() -> None:
    """Missing, wrong and unknown arguments, by their names."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "k": {"enum": ["a", 1]}, "u": {}},
        "required": ["n"],
        "additionalProperties": False,
    }
    assert list(misfits(schema, {"n": 1, "k": "a", "u": None})) == []
    assert list(misfits(schema, {"n": 2.0})) == []
    assert list(misfits(schema, {})) == ["n: Field required"]
    assert list(misfits(schema, {"n": True, "k": True, "x": 1})) == [
        "n: must be integer",
        'k: must be one of ["a", 1]',
        "x: unknown",
    ]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert list(misfits(schema, {"n": deep, "k": deep, "u": deep})) == [
        "n: must be integer",
        'k: must be one of ["a", 1]',
    ]


def chained(length: int, keyword: str, fan: int = 2) -> dict[str, Any]:
    """A schema of definitions each of which refers to the next one `fan` times."""

    def level(number: int) -> dict[str, Any]:
        following = [{"$ref": f"#/$defs/d{number + 1}"} for _ in range(fan)]
        if keyword == "properties":
            named = {f"p{place}": part for place, part in enumerate(following)}
            return {"type": "object", "properties": named}
        return {keyword: following}

    levels = {f"d{number}": level(number) for number in range(length)}
    definitions = {**levels, f"d{length}": {"type": "string"}}
    return {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


@pytest.mark.parametrize("fan", [2, 20])
@pytest.mark.parametrize("keyword", ["properties", "allOf", "anyOf", "oneOf", "prefixItems"])
def test_chained_references_are_followed_once(keyword: str, fan: int) -> None:
    """A small schema whose references fan out at each level is checked in no time."""
    given = chained(22, keyword, fan)
    began = time.process_time()
    schema, problem = usable_schema(given)
    signature(ToolSpec("t", "", schema))
    assert list(misfits(schema, {"x": {"p0": {"p1": {}}}})) == []
    assert problem == "" and schema["$defs"] == given["$defs"]
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (chained(24, "properties"), ""),
        (chained(25, "properties"), "nested too deeply"),
        (chained(150, "properties"), "nested too deeply"),
        (
            {
                "properties": {"x": {"$ref": "#/$defs/a"}},
                "$defs": {
                    "a": {"anyOf": [{"$ref": "#/$defs/b"}] * 50},
                    "b": {"allOf": [{"$ref": "#/$defs/a"}] * 50},
                },
            },
            "refers to itself",
        ),
        ({"properties": {"x": {"items": {"$ref": "#/properties/x"}}}}, "refers to itself"),
        ({"properties": {"x": {"items": {"$ref": "#/properties"}}}}, "refers to itself"),
        # The end of the chain is known from a shorter way to it.
        (
            {
                **chained(24, "allOf"),
                "properties": {
                    "end": {"$ref": "#/$defs/d9"},
                    "x": {"allOf": [{"$ref": "#/properties/y"}]},
                    "y": {"$ref": "#/$defs/d0"},
                },
            },
            "nested too deeply",
        ),
    ],
)
def test_how_far_references_lead(given: dict[str, Any], problem: str) -> None:
    """Twenty-five references in a row pass; more, and circles of any length, do not."""
    schema, found = usable_schema(given)
    assert problem in found and bool(problem) == bool(found)
    assert (schema == ANYTHING) == bool(problem)


def test_a_long_type_is_not_spelled_out() -> None:
    """The head of a tool's function stays short, however much its parameters refer to others."""
    given = {
        "properties": {"x": {"$ref": "#/$defs/d0"}, "y": True},
        "$defs": {
            **{
                f"d{level}": {
                    "type": "object",
                    "properties": {f"p{i}": {"$ref": f"#/$defs/d{level + 1}"} for i in range(60)},
                }
                for level in range(4)
            },
            "d4": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }
    schema, problem = usable_schema(given)
    assert problem == ""
    assert len(signature(ToolSpec("t", "", schema))) < 2_000
