"""Displays of the agent's code as data: what may go into the page, and what into a frame.

Plain HTML is cleaned. HTML with scripts goes into a frame: in it, scripts run without access to the
page, the notebook server or the network. Libraries and maps that plots need are the exception:
they load from `LIBRARY_HOSTS` and `MAP_HOSTS`. A display that loads anything else waits, folded,
until the person unfolds it.

The frame is double. A script can send its own frame to another address; the outer frame, which
holds no foreign script, forbids that.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jupyter_agent.core.markdown import inert, inert_formula
from jupyter_agent.core.markup import cleaned_html
from jupyter_agent.core.messages import JsonObject, Output, is_bitmap

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The MIME type of a widget's place in a notebook."""

LIBRARY_HOSTS = (
    "cdn.jsdelivr.net",
    "cdnjs.cloudflare.com",
    "unpkg.com",
    "cdn.plot.ly",
    "cdn.bokeh.org",
    "cdn.pydata.org",
    "cdn.holoviz.org",
    "code.jquery.com",
    "netdna.bootstrapcdn.com",
    "maxcdn.bootstrapcdn.com",
    "cdn.datatables.net",
    "d3js.org",
)
"""Hosts of the libraries by which plots draw themselves."""
MAP_HOSTS = ("tile.openstreetmap.org", "*.tile.openstreetmap.org", "*.basemaps.cartocdn.com")
"""Hosts of the maps that folium and plotly show by default."""

MOST_CLEANED = 2_000_000
"""Characters of HTML that is cleaned; a longer one goes into a frame."""
MOST_SEARCHED = 200_000
"""Characters of one script that is searched for addresses; a longer one is a library."""
MOST_NAMED = 4
"""The most hosts that are named where a display waits."""
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
_SCRIPT = re.compile(r"(?is)<script\b[^>]*>(.*?)</script\b[^>]*>")
_REMOTE = r"((?:https?:)?(?:\\?/){2}[^\s\"'<>()\\]+)"
_ADDRESS = re.compile(r"(?i)(?<!href=)(?<!href=\\)[\"'`]\s*(https?:(?:\\?/){2}[^\s\"'<>()\\{}$`]+)")
_LOADED = re.compile(
    rf"""(?ix) \b(?:src|srcset|poster|background|data)\s*=\s*["']?\s*{_REMOTE}
    | (?:url\(|@import)\s*["']?\s*{_REMOTE} | <link\b[^>]*?\bhref\s*=\s*["']?\s*{_REMOTE}"""
)
_SOURCE = re.compile(rf"""(?i)<script\b[^>]*?\bsrc\s*=\s*["']?\s*{_REMOTE}""")
_FRAMED_FILE = re.compile(
    r"""(?i)<(?:iframe|embed)\b[^>]*?\bsrc\s*=\s*["']?\s*(?!data:|about:)[^\s"'>]"""
)
_FRAMED = re.compile(rf"""(?i)<(?:iframe|embed)\b[^>]*?\bsrc\s*=\s*["']?\s*{_REMOTE}""")
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
    | \bhref\s*=\s*["']?\s*(?!\#|data:image/(?:png|jpeg))[^\s"']
    | \b(?:src|url)\s*\(\s*["']?\s*(?!\#|data:image/)[^\s"')]"""
)

FRAME = "jupyter-agent-frame"
"""The class of the frames."""
_SANDBOX = "allow-scripts"
_CLOSED = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob: {libraries}; "
    "style-src 'unsafe-inline' data: {libraries}; font-src data: {libraries}; "
    "img-src data: blob: {libraries} {maps}; media-src data: blob:; worker-src blob:; "
    "connect-src data: blob: {libraries}; frame-src 'none'; form-action 'none'; base-uri 'none'"
).format(
    libraries=" ".join(f"https://{host}" for host in LIBRARY_HOSTS),
    maps=" ".join(f"https://{host}" for host in MAP_HOSTS),
)
_OPEN = "default-src * data: blob: 'unsafe-inline' 'unsafe-eval'; form-action 'none'"

# In the page: gives each frame the height that it asks for, and those that wait their document.
_SIZED = (
    "if(!window.jupyterAgentFrames){window.jupyterAgentFrames=true;"
    'addEventListener("message",e=>{const h=e.data&&e.data.jupyterAgentHeight;'
    'if(typeof h==="number")for(const f of document.querySelectorAll("iframe.' + FRAME + '"))'
    'if(f.contentWindow===e.source)f.style.height=Math.min(Math.max(h,0),20000)+"px"});'
    'addEventListener("toggle",e=>{if(e.target.open)for(const f of '
    'e.target.querySelectorAll("iframe[data-document]"))if(!f.srcdoc)f.srcdoc=f.dataset.document},'
    "true)}"
    'for(const n of document.querySelectorAll(".' + FRAME + '-note"))n.remove();'
)
# In the inner frame: tells the height of its content.
_TELLING = (
    "<script>(()=>{const d=document,"
    "t=()=>parent.postMessage({jupyterAgentHeight:Math.ceil(Math.max("
    "d.documentElement.getBoundingClientRect().height,d.body?d.body.scrollHeight:0))},'*');"
    "addEventListener('load',()=>{t();setTimeout(t,300);setTimeout(t,1500)});"
    "const o=new ResizeObserver(t);o.observe(d.documentElement);"
    "addEventListener('DOMContentLoaded',()=>o.observe(d.body))})()</script>"
)
_PAPER = (
    "<style>html{background:#fff;color:#000;color-scheme:light}"
    "body{margin:0;font:13px/1.4 system-ui,sans-serif}</style>"
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
            if any(each in script for each in _ID.findall(markup)):
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
    if not _ACTIVE.search(markup) and len(markup) <= MOST_CLEANED:
        return cleaned_html(markup) + _on_request(markup, pictures)
    text = _unfolded(markup)
    if _FRAMED_FILE.search(text) or _hosts(_SOURCE, text):
        hosts = [*_hosts(_FRAMED, text), *_hosts(_SOURCE, text)]
        return _folded(_frame(markup, _OPEN), hosts, "This display loads from")
    return _frame(markup, _CLOSED) + _on_request(markup, [*pictures, *_hosts_in_scripts(text)])


def _on_request(markup: str, hosts: list[str]) -> str:
    """The same display with what it loads from unknown hosts, folded; empty if there are none."""
    if not hosts or len(markup) > MOST_TWICE:
        return ""
    return _folded(_frame(markup, _OPEN), hosts, "Not loaded from")


def is_harmless_svg(markup: str) -> bool:
    """True if a drawing plainly has no scripts, and nothing to load."""
    return _SVG_DANGER.search(html.unescape(markup)) is None


def _as_picture(markup: str) -> str:
    """A drawing as a picture: in pictures, scripts do not run and nothing is loaded."""
    data = base64.b64encode(markup.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="drawing" src="data:image/svg+xml;base64,{data}">'


def _frame(markup: str, policy: str) -> str:
    """The markup in a frame within a frame, and the script that gives them their height."""
    inner = f"<!DOCTYPE html><meta charset=utf-8>{_PAPER}<body>{_TELLING}{markup}"
    outer = (
        f'<!DOCTYPE html><meta charset=utf-8><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}">'
        "<style>html,body{margin:0;height:100%;overflow:hidden}"
        "iframe{border:0;width:100%;height:100%;display:block}</style><body><script>"
        'addEventListener("message",e=>{if(e.source!==parent)parent.postMessage(e.data,"*")});'
        'const f=document.createElement("iframe");'
        f'f.setAttribute("sandbox","{_SANDBOX}");f.srcdoc={_literal(inner)};'
        "document.body.append(f)</script>"
    )
    document = html.escape(outer, quote=False).replace("'", "&#39;")
    attribute = "data-document" if policy is _OPEN else "srcdoc"
    style = "border:0;width:100%;height:300px;display:block"
    return (
        f'<div><small class="{FRAME}-note">This display is shown once the notebook is trusted '
        f'(File → Trust Notebook).</small><iframe class="{FRAME}" sandbox="{_SANDBOX}" '
        f"style=\"{style}\" {attribute}='{document}'></iframe>"
        f"<script>{_SIZED}</script></div>"
    )


def _literal(text: str) -> str:
    """The text as a string of JavaScript that ends no script element, without blank lines."""
    literal = json.dumps(text, ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")
    return literal.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _folded(frame: str, hosts: Iterable[str], words: str) -> str:
    names = list(hosts)
    listed = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
    place = f"{words} {listed or 'a file'}"
    return (
        f'<details><summary style="cursor:pointer">{html.escape(place)}. Show it.</summary>'
        f"{frame}</details>"
    )


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
    scripts = [each for each in _SCRIPT.findall(text) if len(each) <= MOST_SEARCHED]
    return [host for host in _hosts(_ADDRESS, "\n".join(scripts)) if host not in _ONLY_NAMED]


def _hosts(pattern: re.Pattern[str], text: str) -> list[str]:
    """The hosts of the addresses that a pattern finds, without those of libraries and maps."""
    found = []
    for match in pattern.finditer(text):
        address = next(filter(None, match.groups()), "").replace("\\", "")
        host = re.sub(r"(?i)^(?:https?:)?//", "", address).split("/")[0].split("@")[-1].lower()
        if host and not _is_known(host):
            found.append(host[:80])
    return list(dict.fromkeys(found))


def _is_known(host: str) -> bool:
    return host in LIBRARY_HOSTS or any(
        host == known.removeprefix("*.") or (known.startswith("*.") and host.endswith(known[1:]))
        for known in MAP_HOSTS
    )


def _plot_loads(value: Any) -> bool:
    """True if a plot's description makes the page load something from an unknown host."""
    if isinstance(value, Mapping):
        return any(
            (key in _LOADING_KEYS and isinstance(each, str) and bool(_hosts(_ANY, each)))
            or (key not in ("values", "datasets") and _plot_loads(each))
            for key, each in value.items()
        )
    return isinstance(value, list) and any(map(_plot_loads, value))
