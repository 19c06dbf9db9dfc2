"""HTML and SVG of others, cleaned: they may format and link, but run nothing and load nothing.

The HTML is parsed and written anew by `nh3`, the styles by `tinycss2`. Style sheets count inside of
the cleaned part only, and nothing in it is drawn outside of it.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from jupyter_agent.core.markdown import is_local_path

if TYPE_CHECKING:
    import nh3

SCOPE = "jupyter-agent-display"
"""The class of the element around cleaned HTML; with a style sheet a digest follows."""
PLACEHOLDER = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='100' height='16'%3E"
    "%3Ctext y='12' font-size='12' fill='gray'%3E[not loaded]%3C/text%3E%3C/svg%3E"
)
"""The picture in the place of one that is not loaded."""

_BOX = "position:relative;overflow:auto;contain:layout"
_STYLE = re.compile(r"<style\b[^>]{0,500}>(.*?)</style[^>]{0,200}>?", re.IGNORECASE | re.DOTALL)
_STYLE_END = re.compile(r"</style[^>]{0,200}>?", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)")
_VOID = frozenset({"br", "hr", "img", "input", "wbr", "source", "col", "path", "line", "meta"})
SHORT, DEEP = 100_000, 500
"""Longer HTML that is nested deeper is not cleaned: the time grows with the square of its depth."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TEXT_TAGS = _words(
    "a abbr article aside b bdi bdo blockquote br caption center cite code col colgroup dd "
    "del details dfn div dl dt em figcaption figure footer h1 h2 h3 h4 h5 h6 header hgroup hr i "
    "img input ins kbd label li main mark meter nav ol p pre progress q s samp section small span "
    "strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul var wbr"
)
_SVG_TAGS = _words(
    "svg g defs symbol use path line polyline polygon rect circle ellipse text tspan title desc "
    "linearGradient radialGradient stop clipPath mask pattern marker"
)
_MEDIA_TAGS = ("audio", "video", "source")
_EMPTIED = {"script", "style", "template", "noscript", "iframe", "object", "math", "head"}

_ANYWHERE = _words("class id style title lang dir role hidden tabindex aria-label aria-hidden")
_OF_TAG = {
    "a": {"href", "target", "download"},
    "col": {"span", "width"},
    "colgroup": {"span", "width"},
    "details": {"open"},
    "img": {"src", "alt", "width", "height"},
    "input": {"type", "checked", "disabled"},
    "label": {"for"},
    "li": {"value"},
    "meter": {"value", "min", "max", "low", "high", "optimum"},
    "ol": {"start", "type", "reversed"},
    "progress": {"value", "max"},
    "table": {"border", "align", "width", "cellpadding", "cellspacing"},
    "td": {"colspan", "rowspan", "headers", "align", "valign", "width", "height", "nowrap"},
    "th": {"colspan", "rowspan", "headers", "scope", "align", "valign", "width", "height"},
    "tr": {"align", "valign"},
    "time": {"datetime"},
    "audio": {"controls", "src", "loop", "muted"},
    "video": {"controls", "src", "loop", "muted", "width", "height"},
    "source": {"src", "type"},
}
_SVG_ATTRIBUTES = _words(
    "viewBox width height x y x1 y1 x2 y2 cx cy r rx ry d points transform fill fill-opacity "
    "fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin "
    "stroke-dasharray stroke-dashoffset stroke-miterlimit opacity font-size font-family "
    "font-weight font-style text-anchor dominant-baseline alignment-baseline dx dy rotate "
    "textLength offset stop-color stop-opacity gradientUnits gradientTransform clip-path "
    "clip-rule clipPathUnits mask maskUnits marker-start marker-mid marker-end markerWidth "
    "markerHeight refX refY orient patternUnits patternTransform preserveAspectRatio xmlns "
    "xmlns:xlink xlink:href href version overflow focusable"
)
_LINKS = re.compile(r"(?i)(?:https?:|mailto:|#)")
_DATA_IMAGE = re.compile(r"(?i)data:image/[a-z0-9.+-]+[;,]")
_DATA_MEDIA = re.compile(r"(?i)data:(?:audio|video)/[a-z0-9.+-]+[;,]")
_SCHEME = re.compile(r"[\s\x00-\x20]*(?:[A-Za-z][A-Za-z0-9+.\-]*:|[/\\]{2})")
# Classes by which a front end, or this package, knows its own parts.
_FOREIGN_CLASS = re.compile(r"(?:jp|lm|cm|p|ja|bp\d|jupyter-agent)(?:-|$)", re.IGNORECASE)

_PLAIN_STYLE = re.compile(r"[\w\s:;.,%#()+'\"!-]*")
_SUSPECT = re.compile(r"(?i)url|image|src|element|paint|expression|behavior|binding|fixed|cross")
_BAD_PROPERTIES = frozenset({"behavior", "-moz-binding"})
_BAD_FUNCTIONS = _words("image-set -webkit-image-set image src element paint expression cross-fade")
_GROUPS = frozenset({"media", "supports", "container"})
_PAGE = re.compile(r"(?i)(?:html|body|:root|:host)(?![\w-])")
_NON_SUBJECT = re.compile(r"^[>+~|]")


def cleaned_html(markup: str) -> str:
    """HTML without scripts, event handlers, forms, frames, and without anything to load.

    Keeps tables, text, details, checkboxes, drawings, embedded pictures, and styles, which count
    inside of the returned element only.
    """
    sheets, rest = _apart(markup)
    body = _cleaner().clean(rest)
    scope, sheet = SCOPE, ""
    if sheets:
        digest = hashlib.sha256("\n".join(sheets).encode("utf-8", "replace")).hexdigest()[:8]
        scope = f"{SCOPE}-{digest}"
        sheet = "".join(scoped_css(each, f".{scope}") for each in sheets)
    style = f"<style>{sheet}</style>" if sheet else ""
    return f'<div class="{scope}" style="{_BOX}">{style}{body}</div>'


def cleaned_fragment(markup: str) -> str:
    """HTML cleaned as by `cleaned_html`, without its style sheets and without a box around it."""
    if is_too_deep(markup):
        return html.escape(markup)
    return _cleaner().clean(_apart(markup)[1])


def is_too_deep(markup: str) -> bool:
    """True for long HTML whose elements are nested too deeply to be cleaned soon."""
    if len(markup) <= SHORT:
        return False
    open_now: Counter[str] = Counter()
    depth = 0
    for closing, name in _TAG.findall(markup):
        tag = name.lower()
        if not closing and tag not in _VOID:
            open_now[tag] += 1
            depth += 1
        elif closing and open_now[tag]:
            open_now[tag] -= 1
            depth -= 1
        if depth > DEEP:
            return True
    return False


def _apart(markup: str) -> tuple[list[str], str]:
    """The style sheets, and the HTML without them."""
    # Behind the last end of a style sheet none is looked for: each would be sought to the end.
    end = max((found.end() for found in _STYLE_END.finditer(markup)), default=0)
    head = markup[:end]
    return _STYLE.findall(head), _STYLE.sub("", head) + markup[end:]


@cache
def _cleaner() -> nh3.Cleaner:
    import nh3

    tags = {*_TEXT_TAGS, *_SVG_TAGS, *_MEDIA_TAGS}
    attributes: dict[str, set[str]] = {
        tag: {*_ANYWHERE, *_OF_TAG.get(tag, ()), *(_SVG_ATTRIBUTES if tag in _SVG_TAGS else ())}
        for tag in tags
    }
    return nh3.Cleaner(
        tags=tags,
        clean_content_tags=_EMPTIED,
        attributes=attributes,
        attribute_filter=_kept_attribute,
        url_schemes={"http", "https", "mailto", "data"},
        set_tag_attribute_values={"input": {"type": "checkbox"}},
        link_rel="noopener noreferrer",
    )


def _kept_attribute(tag: str, name: str, value: str) -> str | None:
    """The attribute's value as it may stay; None leaves the attribute out."""
    if name == "style":
        return kept_style(value) or None
    if name == "class":
        return " ".join(each for each in value.split() if not _FOREIGN_CLASS.match(each)) or None
    if name == "tabindex":
        return value if value == "0" else None
    if name == "src":
        pattern = _DATA_IMAGE if tag == "img" else _DATA_MEDIA
        is_kept = pattern.match(value) or is_local_path(value)
        return value if is_kept else PLACEHOLDER if tag == "img" else None
    if name == "href" and tag == "a":
        return value if _LINKS.match(value) or not _SCHEME.match(value) else None
    if name in ("href", "xlink:href"):
        return value if value.startswith("#") else None
    if name in _SVG_ATTRIBUTES and "(" in value and name not in ("transform", "d"):
        return value if is_safe_css(value) else None
    return value


def kept_style(style: str) -> str:
    """The declarations of a `style` attribute that neither load anything nor leave their place."""
    if _PLAIN_STYLE.fullmatch(style) and not _SUSPECT.search(style):
        return style
    return ";".join(_declarations(style))


def is_safe_css(value: str) -> bool:
    """True if a CSS value, such as a colour, names nothing to load."""
    import tinycss2

    return _is_harmless(tinycss2.parse_component_value_list(value))


def scoped_css(sheet: str, scope: str) -> str:
    """A style sheet whose rules count below the elements of the selector `scope` only.

    Leaves out imports, fonts, animations, and declarations that load something.
    """
    import tinycss2

    rules = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)
    # A `<` begins no part of a style sheet, but could end the element that it stands in.
    return "\n".join(_rules(rules, scope)).replace("<", "\\3c ")


def _rules(rules: Iterable[Any], scope: str) -> Iterator[str]:
    import tinycss2

    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = ", ".join(_selectors(rule.prelude, scope))
            declarations = ";".join(_declarations(rule.content))
            if selectors and declarations:
                yield f"{selectors} {{{declarations}}}"
        elif rule.type == "at-rule" and rule.content and _is_group(rule):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            within = "\n".join(_rules(inner, scope))
            yield f"@{rule.lower_at_keyword}{tinycss2.serialize(rule.prelude)}{{{within}}}"


def _is_group(rule: Any) -> bool:
    """True for a rule that holds others under a condition."""
    return rule.lower_at_keyword in _GROUPS and _is_harmless(rule.prelude)


def _selectors(prelude: Iterable[Any], scope: str) -> Iterator[str]:
    """The selectors of a rule, each with the scope as an ancestor of what it selects."""
    import tinycss2

    parts: list[list[Any]] = [[]]
    for token in prelude:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        elif token.type in ("error", "{} block"):
            return
        else:
            parts[-1].append(token)
    for part in parts:
        selector = tinycss2.serialize(part).strip()
        page, _, rest = _beyond_page(selector)
        if selector and not _NON_SUBJECT.match(rest or page) and "&" not in selector:
            yield f"{page} {scope} {rest}".strip()


def _beyond_page(selector: str) -> tuple[str, str, str]:
    """A selector's part that names the page, such as `html[data-theme=dark]`, and the rest."""
    if not _PAGE.match(selector):
        return "", "", selector
    page, blank, rest = selector.partition(" ")
    # The page's own element is the scope: variables of a theme are kept there.
    page = re.sub(r"(?i)^:(?:root|host)$|^html$|^body$", "", page)
    if _PAGE.match(rest.strip()):
        return page, blank, ""
    return page, blank, rest.strip()


def _declarations(content: Any) -> Iterator[str]:
    import tinycss2

    found = tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
    for one in found:
        if one.type != "declaration" or one.lower_name in _BAD_PROPERTIES:
            continue
        value = tinycss2.serialize(one.value).strip()
        is_fixed = one.lower_name == "position" and "fixed" in value.lower()
        if not is_fixed and _is_harmless(one.value):
            yield f"{one.name}:{value}{'!important' if one.important else ''}"


def _is_harmless(tokens: Iterable[Any] | None) -> bool:
    """True if no token names something to load; pictures inside of the text itself are allowed."""
    for token in tokens or ():
        if token.type in ("error", "{} block"):
            return False
        if token.type == "url" and not _is_inside(token.value):
            return False
        if token.type == "function":
            if token.lower_name in _BAD_FUNCTIONS:
                return False
            if token.lower_name == "url":
                texts = [one.value for one in token.arguments if one.type == "string"]
                if len(texts) != 1 or not _is_inside(texts[0]):
                    return False
            elif not _is_harmless(token.arguments):
                return False
        if token.type in ("() block", "[] block") and not _is_harmless(token.content):
            return False
    return True


def _is_inside(address: str) -> bool:
    return address.startswith("#") or bool(_DATA_IMAGE.match(address))
