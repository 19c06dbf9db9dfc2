"""Text of others as HTML: escaped, Python with colours, Markdown as paragraphs, tables.

Everything is made from escaped text and from tags of our own, with inline styles: JupyterLab drops
style sheets from an untrusted notebook. What stands in <pre> and <code> MathJax leaves alone; in
other text its delimiters are set apart. No line is blank: in a Markdown file, as nbconvert makes
one, HTML ends at the first blank line.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jupyter_agent.core.data_tables import MOST_LETTERS, DataTable, TableRow
from jupyter_agent.core.legible import line
from jupyter_agent.core.markdown import is_local_path

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from pygments.lexer import Lexer

MOST_COLOURED = 6_000
"""Characters of code that gets colours; a longer one stays plain, to keep the notebook small."""

# Each has a contrast of at least 4.2 on white and on #111, JupyterLab's dark background.
_KEYWORD, _STRING, _NUMBER, _DECORATOR = "color:#95e", "color:#384", "color:#37d", "color:#c52"
_COMMENT = "opacity:.7;font-style:italic"
_COLOURS = {
    "Keyword": _KEYWORD,
    "Operator.Word": _KEYWORD,
    "Literal.String": _STRING,
    "Literal.Number": _NUMBER,
    "Name.Builtin": _NUMBER,
    "Name.Decorator": _DECORATOR,
    "Comment": _COMMENT,
}
_CODE = "background:rgba(128,128,128,.12);padding:0 3px;font-size:12px"
_FENCED = (
    "margin:4px 0;padding:4px 8px;background:rgba(128,128,128,.08);white-space:pre-wrap;"
    "overflow-wrap:break-word;font-family:monospace;font-size:12px"
)
_SCROLLING = "max-height:220px;overflow:auto;margin:4px 0"
_TABLE = "border-collapse:collapse;margin:0;font-size:11px;text-align:right"
_BLANK_LINE = re.compile(r"\n(?=[ \t]*\n)")
_BLANK_LINES = re.compile(r"\n\s*\n")
_MATH = re.compile(r"[$\\]")
_LINK = re.compile(r"(?i)(?:https?://|mailto:)[^\s<>\"'\\]+")


def escaped(text: str) -> str:
    """Text for <pre> and <code>."""
    return _BLANK_LINE.sub("&#10;", html.escape(text))


def in_text(text: str) -> str:
    """Text outside of <pre> and <code>: MathJax must not find its delimiters."""
    return _MATH.sub(r"<span>\g<0></span>", escaped(text))


# Python -------------------------------------------------------------------------------------------


def coloured(code: str) -> str:
    """Python code with colours, for <pre>; without them if it is long or cannot be read."""
    tokens = _tokens(code) if len(code) <= MOST_COLOURED else []
    if "".join(text for _, text in tokens) != code:
        return escaped(code)  # the lexer read something else, such as other ends of lines
    runs = (
        (style, "".join(text for _, text in run))
        for style, run in groupby(_styled(tokens), key=lambda pair: pair[0])
    )
    parts = (_span(style, html.escape(text)) for style, text in runs)
    return _BLANK_LINE.sub("&#10;", "".join(parts))


def _tokens(code: str) -> list[tuple[Any, str]]:
    try:
        return list(_python().get_tokens(code))
    except Exception:
        return []  # the agent's code may have set a low recursion limit


def _styled(tokens: Sequence[tuple[Any, str]]) -> Iterator[tuple[str, str]]:
    """The tokens with their styles; blanks go on with the style before them."""
    style = ""
    for kind, text in tokens:
        if not text.isspace() or "\n" in text:
            style = _style(kind)
        yield style, text


@cache
def _style(kind: Any) -> str:
    name = str(kind).removeprefix("Token.")
    return next((style for start, style in _COLOURS.items() if name.startswith(start)), "")


def _span(style: str, text: str) -> str:
    return f'<span style="{style}">{text}</span>' if style else text


@cache
def _python() -> Lexer:
    from pygments.lexers.python import PythonLexer

    return PythonLexer(stripnl=False, ensurenl=False)


# Markdown -----------------------------------------------------------------------------------------


def prose(markdown: str) -> str:
    """A model's Markdown as HTML: no pictures, no HTML of its own, and only harmless links."""
    try:
        markup = str(_markdown().render(markdown))
    except Exception:  # as above
        markup = f"<p>{in_text(markdown)}</p>"
    return _BLANK_LINES.sub("\n", markup).strip()


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    options = {"html": False, "breaks": True, "xhtmlOut": False, "maxNesting": 20}
    reader = MarkdownIt("commonmark", options).enable("table")
    reader.disable(["image", "html_block", "html_inline", "entity"])
    rules = {
        "text": lambda _, tokens, at, *rest: in_text(tokens[at].content),
        "code_inline": lambda _, tokens, at, *rest: _code(tokens[at].content),
        "code_block": lambda _, tokens, at, *rest: _fence(tokens[at].content, ""),
        "fence": lambda _, tokens, at, *rest: _fence(tokens[at].content, tokens[at].info),
        "link_open": lambda _, tokens, at, *rest: _link(tokens[at].attrGet("href")),
        "link_close": lambda _, tokens, at, *rest: "</a>",
        "heading_open": lambda *rest: '<p style="margin:8px 0 4px"><b>',
        "heading_close": lambda *rest: "</b></p>\n",
        "paragraph_open": lambda _, tokens, at, *rest: _paragraph(tokens[at].hidden),
        "ordered_list_open": lambda _, tokens, at, *rest: _ordered(tokens[at].attrGet("start")),
    }
    for name, rule in rules.items():
        reader.add_render_rule(name, rule)
    return reader


def _code(text: str) -> str:
    return f'<code style="{_CODE}">{escaped(text)}</code>'


def _fence(text: str, language: str) -> str:
    is_python = language.strip().lower() in ("python", "py", "ipython", "python3")
    code = text.rstrip("\n")
    return f'<pre style="{_FENCED}">{coloured(code) if is_python else escaped(code)}</pre>\n'


def _link(address: str | int | float | None) -> str:
    """The opening tag of a link; without an address unless it is plainly harmless."""
    href = str(address or "")
    if _LINK.fullmatch(href) or is_local_path(href):
        return f'<a href="{html.escape(href)}" rel="noopener noreferrer">'
    return "<a>"


def _paragraph(is_hidden: bool) -> str:
    return "" if is_hidden else '<p style="margin:4px 0">'


def _ordered(start: str | int | float | None) -> str:
    return f'<ol start="{start}">\n' if isinstance(start, int) else "<ol>\n"


# Tables -------------------------------------------------------------------------------------------


def table(shown: DataTable, room: int) -> str:
    """A data frame as a small table that scrolls; at most about `room` characters of it.

    Args:
        shown: The table.
        room: Characters, markup included; at least one row is shown.
    """
    head = "".join(f"<tr>{_cells(row)}</tr>" for row in shown.head)
    rows: list[str] = []
    size = len(head)
    for row in shown.body:
        markup = f"<tr>{_cells(row)}</tr>"
        size += len(markup)
        if rows and size > room:
            break
        rows.append(markup)
    left = shown.rows - len(rows)
    more = f'<div style="opacity:.75">{left:,} more rows</div>' if left else ""
    return (
        f'<div style="{_SCROLLING}"><table style="{_TABLE}"><thead>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table>{more}</div>"
    )


def _cells(row: TableRow) -> str:
    parts = []
    for cell in row:
        tag = "th" if cell.is_head else "td"
        spans = f' colspan="{cell.across}"' if cell.across > 1 else ""
        spans += f' rowspan="{cell.down}"' if cell.down > 1 else ""
        parts.append(f"<{tag}{spans}>{in_text(line(cell.text, MOST_LETTERS))}</{tag}>")
    return "".join(parts)
