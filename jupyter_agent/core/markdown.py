"""A model's Markdown made inert: it may format and link, it may not bring HTML or scripts.

Renderers disagree about the limits of code and links, and some pass raw HTML through. So markup
that is dangerous in any of them is broken up everywhere: in running text by entities, in apparent
code by an invisible word joiner, since code shows an entity literally.

Pictures and diagrams are broken up, unless they are written so plainly that every renderer reads
them in the same way: nothing is guessed about a renderer.
"""

from __future__ import annotations

import html
import re

from jupyter_agent.core.plaintext import plain

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_LINK = re.compile(r"\](?=[(:])")
_IMAGE = re.compile(r"!(?=\[)")
# No sign of Markdown, HTML or mathematics in the words, no address and no blank in the path.
_WORDS = r"[\w .,?:;()+/%='’–—°-]{0,300}"
_NAME = r"(?:[\w.~+=,-]|%20){1,200}"
_LOCAL = rf"/?{_NAME}(?:/{_NAME}){{0,30}}"
_LOCAL_PATH = re.compile(_LOCAL)
_LOCAL_IMAGE = re.compile(rf"!\[{_WORDS}\]\({_LOCAL}(?: \"{_WORDS}\")?\)")
# JupyterLab draws these languages, and the drawings may bring pictures and styles.
_DIAGRAM = re.compile(
    r"^```mermaid\n(?!---)((?:(?!https?:|---\n|#\w+;|url|image|import|src|click)"
    r"[\w \n.,:;()\[\]{}|+*='\"!?#>^-]){1,20000})\n```$",
    re.IGNORECASE | re.MULTILINE,
)
_FENCED_LINE = re.compile(r"^.*(?:```|~~~).*$", re.MULTILINE)
_DIAGRAM_NAME = re.compile("(?i)(?<=mer)(?=maid)")
# JupyterLab replaces formulas by these marks and puts the formulas back into the finished HTML.
_MARK = re.compile(r"@(?=@[0-9])")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_SAFE_SCHEMES = frozenset({"http", "https", "mailto"})
_BARE_SCHEME = re.compile(r"(?i)\b(javascript|vbscript|data)\s*:(?=\S)")
_JOINER = "\u2060"
_LOOK_AHEAD = 400
# By these commands MathJax links, styles the page, draws characters by number, and gives every
# other formula on the page another meaning.
_COMMANDS = (
    "href url mmlToken require class cssId style data htmlClass htmlId htmlStyle htmlData bbox "
    "includegraphics unicode def gdef edef xdef let newcommand renewcommand providecommand "
    "newenvironment renewenvironment"
)
_MATH = re.compile(rf"\\(?=(?:{'|'.join(_COMMANDS.split())})(?![A-Za-z]))")
_ENTITY = re.compile(r"&(?=(#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,30});)")


def inert(markdown: str) -> str:
    """Markdown in which no renderer finds a tag, a script's address or a remote picture.

    Links to http, https and mailto and to files beside the notebook stay; pictures only beside
    the notebook, since a request for a remote one sends its server the data in the address.
    """
    text = _without_tags(plain(markdown))
    text = _MATH.sub(lambda match: match[0] + _JOINER, text)
    text = _BARE_SCHEME.sub(lambda match: match[0] + _JOINER, text)
    text = _MARK.sub("@" + _JOINER, text)
    text = _without_diagrams(text)
    text = _IMAGE.sub(lambda match: "!" + _broken_unless(_is_local(text, match.start())), text)
    return _LINK.sub(lambda match: "]" + _broken_unless(_leads_well(text, match.end() + 1)), text)


def inert_formula(latex: str) -> str:
    """A formula that cannot link, restyle the page or bring HTML."""
    text = _MATH.sub(lambda match: match[0] + _JOINER, plain(latex))
    return _TAG.sub("< ", text)


def is_local_path(path: str) -> bool:
    """True if the path plainly names a file beside the notebook."""
    return not path.startswith("/") and _LOCAL_PATH.fullmatch(path) is not None


def _broken_unless(harmless: bool) -> str:
    return "" if harmless else _JOINER


def _leads_well(text: str, start: int) -> bool:
    """True if the link target that begins at `start` is relative or of a harmless scheme."""
    scheme = _SCHEME.match(_target(text, start))
    return scheme is None or scheme[1].lower() in _SAFE_SCHEMES


def _is_local(text: str, start: int) -> bool:
    """True if the picture at `start` plainly names a file beside the notebook."""
    return _LOCAL_IMAGE.match(text, start) is not None


def _without_diagrams(text: str) -> str:
    """Shows diagrams as code, except for those of plain words and arrows."""
    if "mermaid" not in text.lower():
        return text
    parts, end = [], 0
    for found in _DIAGRAM.finditer(text):
        parts += [_undrawn(text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*parts, _undrawn(text[end:])])


def _undrawn(text: str) -> str:
    """Breaks up the name of a diagram's language wherever a fence may begin."""
    return _FENCED_LINE.sub(lambda line: _DIAGRAM_NAME.sub(_JOINER, line[0]), text)


def _target(text: str, start: int) -> str:
    """A link's target as a renderer reads it: entities and backslashes undone, blanks gone."""
    # Twice: `_in_text` has escaped some.
    ahead = html.unescape(html.unescape(text[start : start + _LOOK_AHEAD]))
    target = _ESCAPED.sub(r"\1", ahead)
    target = target.lstrip(f" \t\n<{_JOINER}")
    # Browsers drop these inside of an address.
    return re.sub(rf"[\t\n{_JOINER}\u200b\u00ad]", "", target)


def _without_tags(text: str) -> str:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if fence:
            lines.append(_in_code(line))
            if opening and opening[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
        elif opening:
            fence = opening[1]
            lines.append(_in_code(line))
        else:
            lines.append(_in_text(line))
    return "\n".join(lines)


def _in_text(line: str) -> str:
    """A line outside of fences: code spans are every second part between single backticks."""
    parts = line.split("`")
    spans = len(parts) % 2 == 1 and "``" not in line
    return "`".join(
        _in_code(part) if spans and index % 2 else _TAG.sub("&lt;", _decoded_later(part, "amp;"))
        for index, part in enumerate(parts)
    )


def code_fence(text: str) -> str:
    """The backticks around a code block: three, or more than any run of them in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _in_code(text: str) -> str:
    return _TAG.sub("<" + _JOINER, _decoded_later(text, _JOINER))


def _decoded_later(text: str, broken: str) -> str:
    """References to letters and to TeX's own signs broken up: no formula is made of them."""

    def replaced(match: re.Match[str]) -> str:
        character = html.unescape(f"&{match[1]};")
        plain_sign = character.isascii() and (character.isalnum() or character in "\\$:{}()[]")
        return f"&{broken}" if plain_sign or plain(character) != character else "&"

    return _ENTITY.sub(replaced, text)
