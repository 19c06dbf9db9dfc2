"""Displays of the agent's code as data: what may go into the page, and what into a frame.

Plain HTML is cleaned. HTML with scripts goes into a frame, in which they run without access to the
page. What a display loads from unknown hosts waits, folded, until the person unfolds it.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jupyter_agent.core.frames import closed_frame, folded_frame, is_known_host
from jupyter_agent.core.markdown import inert, inert_formula
from jupyter_agent.core.markup import cleaned_html, is_too_deep
from jupyter_agent.core.messages import JsonObject, Output, is_bitmap
from jupyter_agent.core.plaintext import one_line

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The MIME type of a widget's place in a notebook."""

MOST_CLEANED = 1_000_000
"""Characters of HTML that is cleaned; a longer one goes into a frame."""
MOST_SEARCHED = 200_000
"""Characters of one script that is searched for addresses; a longer one is a library."""
MOST_TWICE = 1_000_000
"""Characters of HTML that is stored a second time, to be shown with what it loads."""

_SCRIPTS = ("application/javascript", "text/javascript")
_SVG = "image/svg+xml"
_BOKEH_LOAD = "application/vnd.bokehjs_load.v0+json"
_BOKEH_EXEC = "application/vnd.bokehjs_exec.v0+json"
_PLOTS = re.compile(r"application/vnd\.(?:plotly\.v1|vega(?:lite)?\.v\d{1,2})[+.]json")
_DATA = frozenset({"application/json", "application/geo+json"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_MODEL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

_ACTIVE = re.compile(r"<(?:script|iframe|frame|object|embed|canvas)\b", re.IGNORECASE)
_SCRIPT = re.compile(r"(?is)<script\b[^>]{0,500}>(.*?)</script")
_SCRIPT_END = re.compile(r"(?i)</script")
_REMOTE = r"((?:https?:)?(?:\\?/){2}[^\s\"'<>()\\]+)"
_ADDRESS = re.compile(r"(?i)(?<!href=)(?<!href=\\)[\"'`]\s*(https?:(?:\\?/){2}[^\s\"'<>()\\{}$`]+)")
_IS = r"""\s{0,9}=\s{0,9}["']?\s{0,9}"""
_IN_TAG = r"\b[^>]{0,500}?\b"
_LOADED = re.compile(
    rf"\b(?:src|srcset|poster|background|data){_IS}{_REMOTE}"
    rf"""|(?:url\(|@import)\s{{0,9}}["']?\s{{0,9}}{_REMOTE}|<link{_IN_TAG}href{_IS}{_REMOTE}""",
    re.IGNORECASE,
)
_SOURCE = re.compile(rf"<script{_IN_TAG}src{_IS}{_REMOTE}", re.IGNORECASE)
_FRAMED_FILE = re.compile(
    rf"""<(?:iframe|embed){_IN_TAG}src{_IS}(?!data:|about:)[^\s"'>]""", re.IGNORECASE
)
_FRAMED = re.compile(rf"<(?:iframe|embed){_IN_TAG}src{_IS}{_REMOTE}", re.IGNORECASE)
_ANY = re.compile(rf"^\s*{_REMOTE}", re.IGNORECASE)
_ID = re.compile(r"""(?i)\bid\s*=\s*["']?([\w-]{6,})""")
_BOKEH_VERSION = re.compile(r'"version":\s*"(\d+\.\d+\.\d+)"')
_ENDS_SCRIPT = re.compile(r"<(?=/script|!--)", re.IGNORECASE)
_LOADING_KEYS = frozenset({"url", "source", "geojson", "style", "topojsonURL", "baseURL"})

_ONLY_NAMED = frozenset(
    ("www.w3.org", "plot.ly", "plotly.com", "chart-studio.plotly.com", "vega.github.io")
)
"""Hosts that the scripts of plots name in links and namespaces, and do not load from."""
_SVG_DANGER = re.compile(
    r"""(?ix) <(?:[\w.-]+:)?(?:script|foreignobject|set|animate\w*|feimage|iframe|embed|object
        |audio|video|handler|listener)\b
    | [\s/"']on\w+\s*= | <!ENTITY | <\?xml-stylesheet | javascript: | @import | image-set
    | \bhref\s{0,9}=\s{0,9}["']?\s{0,9}(?!\#|data:image/(?:png|jpeg))[^\s"']
    | \b(?:src|url)\s{0,9}\(\s{0,9}["']?\s{0,9}(?!\#|data:image/)[^\s"')]"""
)


def shown_displays(outputs: Iterable[Output]) -> Iterator[Output]:
    """The displays of a turn as they may be shown in the page, in order.

    A script that is displayed by itself goes into the frame of the HTML before it, if it uses an
    element of it. Some libraries draw in this way.
    """
    loads: list[str] = []
    held: Output | None = None
    for given in outputs:
        output, script = given, _script(given.data)
        if script and "text/html" not in output.data and held is not None:
            markup = str(held.data["text/html"])
            if any(each in script for each in _ID.findall(markup[:MOST_SEARCHED])[:50]):
                output, held = replace(output, data={**output.data, "text/html": markup}), None
        if held is not None:
            yield _shown(held, loads)
            held = None
        if "text/html" in output.data and not _script(output.data):
            held = output
            continue
        yield _shown(output, loads)
        if _BOKEH_LOAD in output.data:
            loads.append(script)
    if held is not None:
        yield _shown(held, loads)


def _shown(output: Output, loads: Iterable[str]) -> Output:
    data: JsonObject = {}
    with suppress(RecursionError):  # JSON that is nested without end
        data = _shown_data(output.data, tuple(loads))
    if not data:
        kinds = ", ".join(line for line in map(str, output.data))
        data = {"text/plain": f"[{html.escape(kinds[:200])}: not shown]"}
    return replace(output, data=data, metadata=_shown_metadata(output.metadata))


def _script(data: Mapping[str, Any]) -> str:
    """The script that a front end would run for these data; empty if there is none."""
    return next((str(data[kind]) for kind in _SCRIPTS if kind in data), "")


def _shown_data(data: Mapping[str, Any], loads: tuple[str, ...]) -> JsonObject:
    shown: dict[str, Any] = {}
    for kind, value in data.items():
        kept = _kept(kind, value)
        if kept is not None:
            shown[kind] = kept
    markup, script = str(data.get("text/html") or ""), _script(data)
    if script:
        if _BOKEH_EXEC in data:
            markup += "".join(map(_as_script, loads)) or _bokeh_library(script)
        markup += "<script>const element=document.body</script>" + _as_script(script)
    drawing = str(data.get(_SVG) or "")
    if markup:
        shown["text/html"] = html_display(markup)
    elif drawing and _SVG not in shown:
        shown["text/html"] = _as_picture(drawing)
    if "text/plain" not in shown and (plot := next(filter(_PLOTS.fullmatch, shown), "")):
        shown["text/plain"] = _plot_in_words(plot, shown[plot])
    return shown


def _kept(kind: str, value: Any) -> Any:
    """The value of one MIME type as it may be shown; None leaves it out."""
    if kind == "text/plain":
        return value
    if kind == "text/markdown":
        return inert(str(value))
    if kind == "text/latex":
        return inert_formula(str(value))
    if kind == _SVG:
        return value if is_harmless_svg(str(value)) else None
    if is_bitmap(kind) or kind == "application/pdf":
        return value if isinstance(value, str) and _BASE64.fullmatch(value) else None
    if kind == WIDGET:
        return _widget_view(value)
    if kind in _DATA:
        return value
    if _PLOTS.fullmatch(kind):
        return None if _plot_loads(value) else value
    return None


def _widget_view(value: Any) -> JsonObject | None:
    model = value.get("model_id") if isinstance(value, Mapping) else None
    if not isinstance(model, str) or not _MODEL_ID.fullmatch(model):
        return None
    return {"version_major": 2, "version_minor": 0, "model_id": model}


def _shown_metadata(metadata: Mapping[str, Any]) -> JsonObject:
    """The sizes of pictures, and nothing else: other entries steer renderers."""
    shown = _sizes(metadata)
    for kind, facts in metadata.items():
        if (is_bitmap(kind) or kind == _SVG) and isinstance(facts, Mapping) and _sizes(facts):
            shown[kind] = _sizes(facts)
    if metadata.get("needs_background") in ("light", "dark"):
        shown["needs_background"] = metadata["needs_background"]
    return shown


def _sizes(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: facts[name]
        for name in ("width", "height", "unconfined")
        if isinstance(facts.get(name), (int, float))
    }


def html_display(markup: str) -> str:
    """HTML of the agent's code as it may stand in the page: cleaned, or in a frame.

    Args:
        markup: The HTML, a fragment or a whole document.
    """
    pictures = _hosts(_LOADED, markup)
    is_plain = not _ACTIVE.search(markup) and len(markup) <= MOST_CLEANED
    if is_plain and not is_too_deep(markup):
        with suppress(RecursionError):  # a style sheet that is nested without end
            return cleaned_html(markup) + _on_request(markup, pictures)
    text = _unfolded(markup)
    if _FRAMED_FILE.search(text) or _hosts(_SOURCE, text):
        hosts = [*_hosts(_FRAMED, text), *_hosts(_SOURCE, text)]
        return folded_frame(markup, hosts, "This display loads from")
    return closed_frame(markup) + _on_request(markup, [*pictures, *_hosts_in_scripts(text)])


def _on_request(markup: str, hosts: list[str]) -> str:
    """The same display with what it loads from unknown hosts, folded; empty if there are none."""
    if not hosts or len(markup) > MOST_TWICE:
        return ""
    return folded_frame(markup, hosts, "Not loaded from")


def is_harmless_svg(markup: str) -> bool:
    """True if a drawing plainly has no scripts, and nothing to load."""
    return _SVG_DANGER.search(html.unescape(markup)) is None


def _as_picture(markup: str) -> str:
    """A drawing as a picture: in pictures, scripts do not run and nothing is loaded."""
    data = base64.b64encode(markup.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="drawing" src="data:image/svg+xml;base64,{data}">'


def _as_script(script: str) -> str:
    return "<script>" + _ENDS_SCRIPT.sub(r"<\\", script) + "</script>"


def _bokeh_library(script: str) -> str:
    """The library of a plot of Bokeh's that was loaded in another turn."""
    found = _BOKEH_VERSION.search(script)
    if found is None:
        return ""
    return "".join(
        f'<script src="https://cdn.bokeh.org/bokeh/release/bokeh{part}-{found[1]}.min.js"></script>'
        for part in ("", "-gl", "-widgets", "-tables", "-mathjax")
    )


def _unfolded(markup: str) -> str:
    """The markup with that of the documents in its frames."""
    # Twice: a document in a frame is escaped.
    return html.unescape(html.unescape(markup)) if "srcdoc" in markup else markup


def _hosts_in_scripts(text: str) -> list[str]:
    """The unknown hosts that scripts name: perhaps they load something from there."""
    # Behind the last end of a script none is looked for: each would be sought to the end.
    end = max((found.end() for found in _SCRIPT_END.finditer(text)), default=0)
    scripts = [each for each in _SCRIPT.findall(text[:end]) if len(each) <= MOST_SEARCHED]
    return [host for host in _hosts(_ADDRESS, "\n".join(scripts)) if host not in _ONLY_NAMED]


def _hosts(pattern: re.Pattern[str], text: str) -> list[str]:
    """The hosts of the addresses that a pattern finds, without those of libraries and maps."""
    found = []
    for match in pattern.finditer(text):
        address = next(filter(None, match.groups()), "").replace("\\", "")
        host = re.sub(r"(?i)^(?:https?:)?//", "", address).split("/")[0].split("@")[-1].lower()
        if host and not is_known_host(host):
            found.append(host[:80])
    return list(dict.fromkeys(found))


def _plot_in_words(kind: str, value: Any) -> str:
    """A plot in a line: its library, and its title if it has one."""
    library = "plotly" if "plotly" in kind else "Vega"
    found = value.get("layout", value) if isinstance(value, Mapping) else {}
    title = found.get("title") if isinstance(found, Mapping) else ""
    title = title.get("text") if isinstance(title, Mapping) else title
    words = f": {one_line(title)}" if isinstance(title, str) and title else ""
    return f"[a plot of {library}{words}]"


def _plot_loads(value: Any) -> bool:
    """True if a plot's description makes the page load something from an unknown host."""
    if isinstance(value, Mapping):
        return any(
            (key in _LOADING_KEYS and isinstance(each, str) and bool(_hosts(_ANY, each)))
            or (key not in ("values", "datasets") and _plot_loads(each))
            for key, each in value.items()
        )
    return isinstance(value, list) and any(map(_plot_loads, value))
