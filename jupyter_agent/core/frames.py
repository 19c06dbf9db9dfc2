"""Frames for displays with scripts: in them, scripts run without access to the page.

A frame has no access to the notebook server either, and to the network only for the libraries and
maps that plots need, from `LIBRARY_HOSTS` and `MAP_HOSTS`. It is double: a script can send its own
frame to another address, and the outer frame, which holds no foreign script, forbids that.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

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

MOST_NAMED = 4
"""The most hosts that are named where a display waits."""

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
    "true);"
    # A frame that takes the keyboard while the pointer is elsewhere gives it back, then is closed.
    "let last=null,tab=0;"
    'addEventListener("keydown",e=>{if(e.key==="Tab")tab=Date.now()},true);'
    'addEventListener("focusin",e=>{if(e.target.tagName!=="IFRAME")last=e.target},true);'
    'addEventListener("blur",()=>setTimeout(()=>{const f=document.activeElement;'
    f'if(!f||!f.matches("iframe.{FRAME}")||f.matches(":hover")||Date.now()-tab<500)return;'
    "f.taken=(f.taken||0)+1;if(f.taken>3)f.srcdoc="
    '"This display took the keyboard and was closed.";'
    "f.blur();if(last)last.focus({preventScroll:true})}))}"
    'for(const n of document.querySelectorAll(".' + FRAME + '-note"))n.remove();'
)
# In the inner frame: tells the height of its content.
_TELLING = (
    "<script>(()=>{const d=document,"
    "t=()=>parent.postMessage({jupyterAgentHeight:Math.ceil(Math.max("
    "d.documentElement.getBoundingClientRect().height,d.body?d.body.scrollHeight:0))},'*');"
    "addEventListener('load',()=>{t();setTimeout(t,300);setTimeout(t,1500)});"
    "const o=new ResizeObserver(t);o.observe(d.documentElement);"
    "addEventListener('DOMContentLoaded',()=>o.observe(d.body));"
    "addEventListener('pagehide',()=>parent.postMessage({jupyterAgentLeft:true},'*'))})()</script>"
)
# In the outer frame: a sentence in place of the error page for an address that is not allowed.
_CLOSING = (
    'addEventListener("message",e=>{if(e.source===parent||!e.data||!e.data.jupyterAgentLeft)return;'
    'const b=document.body;b.textContent="This display tried to open another page, which it may '
    'not.";b.style.cssText="margin:0;padding:4px;background:#fff;color:#000;'
    'font:13px/1.4 system-ui,sans-serif";parent.postMessage({jupyterAgentHeight:28},"*")});'
)
_PAPER = (
    "<style>html{background:#fff;color:#000;color-scheme:light}"
    "body{margin:0;font:13px/1.4 system-ui,sans-serif}</style>"
)


def closed_frame(markup: str) -> str:
    """HTML with scripts, in a frame as high as its content, which reaches only known hosts."""
    return _frame(markup, _CLOSED)


def folded_frame(markup: str, hosts: Sequence[str], words: str) -> str:
    """HTML with scripts in a frame that begins when the person unfolds it, and may load anything.

    Args:
        markup: The HTML.
        hosts: Where it loads from, to be named; the first few are.
        words: The words before their names.
    """
    hosts = list(dict.fromkeys(hosts))
    listed = ", ".join(hosts[:MOST_NAMED]) + (" and others" if len(hosts) > MOST_NAMED else "")
    place = html.escape(f"{words} {listed or 'a file'}")
    return (
        f'<details><summary style="cursor:pointer">{place}. Show it.</summary>'
        f"{_frame(markup, _OPEN)}</details>"
    )


def is_known_host(host: str) -> bool:
    """True for the hosts of libraries and maps."""
    return host in LIBRARY_HOSTS or any(
        host == known.removeprefix("*.") or (known.startswith("*.") and host.endswith(known[1:]))
        for known in MAP_HOSTS
    )


def _frame(markup: str, policy: str) -> str:
    """The markup in a frame within a frame, and the script that gives them their height."""
    inner = f"<!DOCTYPE html><meta charset=utf-8>{_PAPER}<body>{_TELLING}{markup}"
    outer = (
        f'<!DOCTYPE html><meta charset=utf-8><meta http-equiv="Content-Security-Policy" '
        f'content="{policy}">'
        "<style>html,body{margin:0;height:100%;overflow:hidden}"
        "iframe{border:0;width:100%;height:100%;display:block}</style><body><script>"
        f"{_CLOSING if policy is _CLOSED else ''}"
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
