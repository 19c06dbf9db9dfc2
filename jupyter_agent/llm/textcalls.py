"""Finds tool calls in a reply's text, in the many forms that models write them.

Only complete calls of known tools count. Nothing is repaired or guessed: doubtful calls stay text.
Code fences, inline code and `<think>` sections are skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from jupyter_agent.core.messages import ToolSpec, is_served

Specs = Mapping[str, ToolSpec]


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call in a text: `arguments` is a JSON object."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TextCalls:
    """A reply's text without the calls, and the calls in order.

    `goes_on` is True if text follows the last call.
    """

    words: str
    calls: tuple[TextCall, ...]
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    calls: tuple[TextCall, ...]


_MOST_TRIES = 50
"""Marks in one reply that are looked at: a hostile text must not hold up the kernel."""
_KIND = r"(?:tool_calls?|toolcall|tools|function_calls?|functioncall)"
_PREFIX = r"(?:minimax:|antml:|｜DSML｜)?"
_OPENING = (
    rf"(?i:<{_PREFIX}{_KIND}>)|<\|tool_calls?\|>|<\|tool_calls_(?:section_)?(?:begin|start)\|>"
    r"|<\|python_tag\|>|<\|action_start\|>\s*<\|plugin\|>|<｜tool▁calls▁begin｜>"
    r"|\[TOOL_CALLS?\]|functools(?=\[\{)"
)
_FUNCTION = (
    r"<function=[\"']?(?P<function>[\w.-]+)[\"']?>"
    rf"|<{_PREFIX}invoke name=[\"'](?P<invoke>[\w.-]+)[\"']\s*>"
)
_DEEPSEEK = (
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<deepseek>[\w.-]+)"
    r"(?:<｜tool▁sep｜>|\n```json\n)?"
)
_KIMI = (
    r"<\|tool_call_begin\|>\s*(?:functions\.)?(?P<kimi>[\w-]+)(?::\d+)?\s*"
    r"<\|tool_call_argument_begin\|>"
)
_HARMONY = (
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:commentary|analysis) "
    r"to=functions\.(?P<harmony>[\w-]+)"
    r"(?:\s*+<\|constrain\|>\s*+json|\s++json)?+\s*+<\|message\|>"
)
_MARK = re.compile(
    rf"(?P<opening>{_OPENING})|{_FUNCTION}|{_DEEPSEEK}|{_KIMI}|{_HARMONY}"
    r"|(?P<fence>^[ \t]*(?P<ticks>`{3,}|~{3,})[^\n]*$)|(?P<think><think(?:ing)?>)|(?P<tick>`+)"
    r"|(?P<invented><\|?tool_(?:response|result)s?\|?>|<function_results>|\[TOOL_RESULTS\])",
    re.MULTILINE,
)
_CLOSING = re.compile(
    rf"\s*(?:(?i:</{_PREFIX}{_KIND}>)|<\|/tool_calls?\|>|<\|tool_calls?_(?:section_)?end\|>"
    r"|<｜tool▁calls?▁end｜>|\[/TOOL_CALLS?\]|</function>|</tool_call>"
    r"|<\|(?:eom_id|eot_id|action_end|call|im_end)\|>(?:\s*<\|(?:eom_id|eot_id|im_end)\|>)?)"
)
_ITEM = re.compile(rf"\s*+(?:(?:{_OPENING})\s*+)*+(?:{_FUNCTION}|{_DEEPSEEK}|{_KIMI}|{_HARMONY})")
_BETWEEN = re.compile(rf"[\s,;]*+(?:(?:{_OPENING})\s*+)?")
_PARAMETER = re.compile(
    rf"\s*<{_PREFIX}parameter(?:=[\"']?|\s+name=[\"'])(?P<key>[^<>\"'\n]+?)[\"']?"
    r"(?:\s+string=\"(?P<string>true|false)\")?\s*>(?P<value>.*?)"
    rf"</{_PREFIX}parameter>(?=\s*(?:<{_PREFIX}parameter\b|</function>|</{_PREFIX}invoke>))",
    re.DOTALL,
)
_FUNCTION_END = re.compile(rf"\s*(?:</function>|</{_PREFIX}invoke>)")
_GLM = re.compile(r"\s*+(?P<name>[\w-]++)\s*+(?=<arg_key>|</tool_call>)")
_GLM_ARGUMENT = re.compile(
    r"\s*<arg_key>(?P<key>[^<]+)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>"
    r"(?=\s*(?:<arg_key>|</tool_call>))",
    re.DOTALL,
)
_MISTRAL = re.compile(r"\s*+(?P<name>[\w-]++)\s*+(?:\[CALL_ID\]\w++)?+\s*+(?:\[ARGS\])?+\s*+(?=\{)")
_FENCED = re.compile(
    r"[ \t]*(?P<ticks>`{3,})[ \t]*(?:json|tool_call|tool_calls|tool|tool_use)?[ \t]*\n"
    r"(?P<body>(?:(?!\n[ \t]*```).)*)\n[ \t]*(?P=ticks)\s*$",
    re.DOTALL | re.IGNORECASE,
)
_THOUGHT = re.compile(r"\s*(?:<think(?:ing)?>.*?)?</think(?:ing)?>\s*", re.DOTALL)

_NAMES = ("name", "tool", "function", "tool_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_BESIDES = frozenset({"id", "type", "index", "call_id", "tool_call_id"})


def read(text: str, tools: Specs) -> TextCalls:
    """The calls in a reply. If there are none, the text is unchanged."""
    if not tools:
        return TextCalls(text, ())
    for reader in (_tagged, _bare, _fenced):
        found = reader(text, tools)
        if found is not None:
            return found
    return TextCalls(text, ())


def thought_end(text: str) -> int:
    """The place where a reply begins after the thinking in its text."""
    match = _THOUGHT.match(text)
    if match is None and "<think" not in text:
        # The opening tag was in the prompt.
        end = text.find("</think>")
        return 0 if end < 0 or "`" in text[:end] else end + len("</think>")
    return match.end() if match else 0


# Tagged calls ------------------------------------------------------------------------------------


def _tagged(text: str, tools: Specs) -> TextCalls | None:
    spans, end = _spans(text, tools)
    spans = [span for run in _runs(text, spans) if _stands_alone(text, run, end) for span in run]
    if not spans:
        return None
    pieces = [text[a.end : b.start] for a, b in pairwise(spans)]
    rest = text[spans[-1].end : end]
    words = "\n".join(
        piece.strip() for piece in (text[: spans[0].start], *pieces, rest) if piece.strip()
    )
    calls = tuple(call for span in spans for call in span.calls)
    return TextCalls(words, calls, bool(text[spans[-1].end :].strip()))


def _spans(text: str, tools: Specs) -> tuple[list[_Span], int]:
    """The calls with their places, and the end of the reply: invented results may follow it."""
    spans: list[_Span] = []
    place, tries = thought_end(text), 0
    while (match := _MARK.search(text, place)) and tries < _MOST_TRIES:
        if match["invented"]:
            if spans:
                return spans, match.start()
            place = match.end()
        elif (past := _past(text, match)) is not None:
            place = past
        else:
            tries += 1
            span = _group(text, match.start(), tools)
            if span is not None:
                spans.append(span)
            place = span.end if span is not None else match.end()
    return spans, len(text)


def _past(text: str, match: re.Match[str]) -> int | None:
    """The end of a skipped section; None if `match` begins none."""
    if match["think"]:
        end = text.find("</think", match.end())
        return len(text) if end < 0 else end + 1
    if ticks := match["ticks"]:
        closing = re.compile(rf"^[ \t]*{re.escape(ticks)}{re.escape(ticks[0])}*[ \t]*$", re.M)
        found = closing.search(text, match.end())
        return found.end() if found else len(text)
    if match["tick"]:
        line_end = text.find("\n", match.end())
        end = text.find(match["tick"], match.end(), line_end if line_end >= 0 else len(text))
        return match.end() if end < 0 else end + len(match["tick"])
    return None


def _runs(text: str, spans: list[_Span]) -> Iterator[list[_Span]]:
    """Calls with nothing but white space between them, together."""
    run: list[_Span] = []
    for span in spans:
        if run and text[run[-1].end : span.start].strip():
            yield run
            run = []
        run.append(span)
    if run:
        yield run


def _stands_alone(text: str, run: list[_Span], end: int) -> bool:
    """True if calls are no quotation: they end the reply, or fill lines of their own."""
    before, after = text[: run[0].start], text[run[-1].end : end]
    if not after.strip():
        return True
    return not before.rpartition("\n")[2].strip() and not after.partition("\n")[0].strip()


def _group(text: str, start: int, tools: Specs) -> _Span | None:
    """One mark with all its calls."""
    calls: list[TextCall] = []
    opening = re.compile(rf"(?:{_OPENING})\s*").match(text, start)
    place = end = opening.end() if opening else start
    while item := _item(text, place, tools, opened=opening is not None):
        calls += item.calls
        end = _closed(text, item.end)
        between = _BETWEEN.match(text, end)
        if opening is None or between is None:
            break
        place = between.end()
    return _Span(start, len(text[:end].rstrip()), tuple(calls)) if calls else None


def _closed(text: str, place: int) -> int:
    while match := _CLOSING.match(text, place):
        place = match.end()
    return place


def _item(text: str, place: int, tools: Specs, opened: bool) -> _Span | None:
    """One call, or one JSON value with calls, that begins at `place`."""
    if match := _ITEM.match(text, place):
        name = next(group for group in match.groups() if group)
        if name not in tools:
            return None
        markup = bool(match["function"] or match["invoke"])
        return _body(text, match.end(), tools[name], markup)
    if not opened:
        return None
    if match := _GLM.match(text, place):
        return _glm(text, match, tools)
    if match := _MISTRAL.match(text, place):
        return (
            _body(text, match.end(), tools[match["name"]], False)
            if match["name"] in tools
            else None
        )
    value, end = _json(text, place)
    calls = calls_of(value, tools, strict=False) if end else None
    return _Span(place, end, tuple(calls)) if calls else None


def _body(text: str, place: int, tool: ToolSpec, markup: bool) -> _Span | None:
    """The arguments after a tool's name: a JSON object, or parameters in markup."""
    value, end = _json(text, place)
    if end and isinstance(value, dict):
        fence = re.compile(r"\s*```").match(text, end)
        end = fence.end() if fence and not markup else end
        closing = _FUNCTION_END.match(text, end)
        return _Span(
            place, closing.end() if closing and markup else end, (TextCall(tool.name, value),)
        )
    if not markup:
        return None
    arguments: dict[str, Any] = {}
    while match := _PARAMETER.match(text, place):
        key = match["key"].strip()
        if key in arguments:
            return None
        is_text = None if match["string"] is None else match["string"] == "true"
        arguments[key] = _typed(match["value"], key, tool, is_text)
        place = match.end()
    closing = _FUNCTION_END.match(text, place)
    if closing is None:
        return None
    return _Span(place, closing.end(), (TextCall(tool.name, arguments),))


def _glm(text: str, match: re.Match[str], tools: Specs) -> _Span | None:
    tool, place = tools.get(match["name"]), match.end()
    if tool is None:
        return None
    arguments: dict[str, Any] = {}
    while argument := _GLM_ARGUMENT.match(text, place):
        key = argument["key"].strip()
        arguments[key] = _typed(argument["value"], key, tool, None)
        place = argument.end()
    closing = re.compile(r"\s*</tool_call>").match(text, place)
    return _Span(place, closing.end(), (TextCall(tool.name, arguments),)) if closing else None


def _typed(raw: str, key: str, tool: ToolSpec, is_text: bool | None) -> Any:
    """A parameter's value by the tool's schema. An unreadable one stays text and fails later."""
    value = raw.removeprefix("\n").removesuffix("\n")
    schema = tool.parameters.get("properties", {}).get(key, {})
    kinds = _kinds(schema)
    # Our own schemas do not say that what has no default may be null.
    is_needed = key in tool.parameters.get("required", ())
    if not is_needed and "default" not in schema and not is_served(tool.name):
        kinds.add("null")
    if is_text is None:
        is_text = "string" in kinds and not ("null" in kinds and value.strip() == "null")
    if is_text:
        return value
    try:
        return json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        # The form of Qwen's coder models.
        words = {"True": True, "False": False, "None": None}
        return words.get(value.strip(), value)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kind = schema.get("type")
    found = {kind} if isinstance(kind, str) else set(kind or ())
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= _kinds(inner)
    return found


# JSON --------------------------------------------------------------------------------------------


def _bare(text: str, tools: Specs) -> TextCalls | None:
    """A reply of JSON alone: one call, a list of calls, or one call in each line."""
    start = thought_end(text)
    body = text[start:].strip()
    if not body.startswith(("{", "[")):
        return None
    calls: list[TextCall] = []
    place = 0
    while place < len(body):
        value, end = _json(body, place)
        found = calls_of(value, tools, strict=True) if end else None
        if not found:
            return None
        calls += found
        separator = re.compile(r"\s*;?\s*").match(body, end)
        place = separator.end() if separator else end
    return TextCalls(text[:start].strip(), tuple(calls))


def _fenced(text: str, tools: Specs) -> TextCalls | None:
    """Fenced JSON at the end of a reply. In the middle of one it is an example."""
    calls: list[TextCall] = []
    place, rest = thought_end(text), text.rstrip()
    while match := _last_fence(rest, place):
        value, end = _json(match["body"], 0)
        whole = end and not match["body"][end:].strip()
        found = calls_of(value, tools, strict=True) if whole else None
        if not found:
            break
        calls[:0] = found
        rest = rest[: match.start()].rstrip()
    return TextCalls(rest.strip(), tuple(calls)) if calls else None


def _last_fence(text: str, place: int) -> re.Match[str] | None:
    """The fenced block that ends a text."""
    if not text.endswith("```"):
        return None
    fences = [m.start() for m in re.finditer(r"^[ \t]*```", text[place:], re.MULTILINE)]
    if len(fences) < 2 or len(fences) % 2:
        return None
    start = place + fences[-2]
    return _FENCED.match(text, start)


def calls_of(value: object, tools: Specs, *, strict: bool) -> list[TextCall] | None:
    """The calls in a JSON value; None unless all of it is calls of known tools.

    Args:
        value: Any JSON value.
        tools: The tools by name.
        strict: True requires arguments, and allows no other members: for JSON without a mark.
    """
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"] if len(value) == 1 or not strict else None
    if isinstance(value, list):
        found = [_call(item, tools, strict) for item in value]
        return [call for call in found if call] if found and all(found) else None
    call = _call(value, tools, strict)
    return [call] if call else None


def _call(value: object, tools: Specs, strict: bool) -> TextCall | None:
    if not isinstance(value, dict):
        return None
    for key in ("function", "function_call"):
        if isinstance(value.get(key), dict):
            if strict and set(value) - {key} - _BESIDES:
                return None
            return _call(value[key], tools, strict)
    names = [key for key in _NAMES if isinstance(value.get(key), str)]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(given) > 1 or (strict and not given):
        return None
    if strict and set(value) - {*names, *given} - _BESIDES:
        return None
    arguments = _object(value[given[0]]) if given else {}
    name = value[names[0]]
    return TextCall(name, arguments) if name in tools and arguments is not None else None


def _object(value: object) -> dict[str, Any] | None:
    """Arguments as an object, also from the API's own form, a text of JSON."""
    if isinstance(value, str):
        value, end = _json(value, 0)
        return value if end and isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _json(text: str, place: int) -> tuple[Any, int]:
    """The JSON object or list at `place` and its end; the end is 0 if there is no complete one."""
    while place < len(text) and text[place].isspace():
        place += 1
    if place >= len(text) or text[place] not in "{[":
        return None, 0
    try:
        return _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, 0


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Refuses a repeated key, whose value would be ambiguous."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key comes twice")
    return made


_DECODER = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_pairs)
