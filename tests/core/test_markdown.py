"""A model's Markdown, made inert."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import mistune
import pytest
from browser.hostile_markdown import ORDINARY, spellings
from generated import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from jupyter_agent.core.events import Receipt
from jupyter_agent.core.markdown import inert
from jupyter_agent.core.messages import Usage
from jupyter_agent.session.answer import make_answer

HARMLESS = [
    "p",
    "b",
    "i",
    "em",
    "strong",
    "del",
    "code",
    "pre",
    "a",
    "ul",
    "ol",
    "li",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "br",
    "blockquote",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "img",
    "span",
    "div",
    "s",
]

ATTACKS = [
    "<script>alert(1)</script>",
    "<SCRIPT\n>alert(1)</SCRIPT>",
    "<img src=x onerror=alert(1)>",
    "<iframe srcdoc='<script>1</script>'>",
    "a<b onclick=alert(1)>c",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](&#x6A;avascript&colon;alert(1))",
    "[x](java&Tab;script:alert(1))",
    "[x](java&NewLine;script:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](javascript\\:alert(1))",
    "[x](<javascript:alert(1)>)",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x][y]\n\n[y]: javascript:alert(1)",
    "[y]: <javascript:alert(1)>\n[y]",
    "<javascript:alert(1)>",
    '[x](http://a.example "onmouseover=alert(1)")',
    '[x](http://a.example "\\" onmouseover=alert(1) x=\\"")',
    "![x](javascript:alert(1))",
    '![" onerror="alert(1)](x)',
    "`<script>` and ` <img onerror=alert(1)> `",
    "``\n<script>alert(1)</script>\n``",
    "`\n<script>alert(1)</script>\n`",
    "\\`<script>alert(1)</script>\\`",
    "```\n</pre><script>alert(1)</script>\n```",
    "```html\n<script>alert(1)</script>",
    "````\n```\n<script>1</script>\n````\n<script>2</script>",
    "~~~\n```\n~~~\n<script>alert(1)</script>",
    "```a`b\n<script>alert(1)</script>\n```",
    "    ```\n<script>alert(1)</script>",
    "- ```\n<script>alert(1)</script>\n",
    "> ```\n<script>alert(1)</script>\n",
    "<!-- --><script>alert(1)</script>",
    "<!--\n--!><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php <script>alert(1)</script> ?>",
    "</details></pre><script>alert(1)</script>",
    "<\u0000script>alert(1)</script>",
    "<\x1b[0mscript>alert(1)</script>",
    "<\rscript>alert(1)</script>",
    "<\u202escript>alert(1)</script>",
    "<\n/script><svg/onload=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<svg><style><img src=x onerror=alert(1)></style>",
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "# <script>alert(1)</script>",
    "[<img src=x onerror=alert(1)>](http://a.example)",
    "<" * 1000 + "script>",
]


class Found(HTMLParser):
    """What a browser would see that no model may bring."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in HARMLESS:
            self.bad.append(f"<{tag}>")
        for name, value in attrs:
            scheme = (value or "").strip().lower().split(":")[0]
            if name.startswith("on") or name in ("style", "srcdoc"):
                self.bad.append(name)
            if name in ("href", "src") and scheme in ("javascript", "vbscript", "data"):
                self.bad.append(str(value))

    def handle_comment(self, data: str) -> None:
        self.bad.append("a comment")

    def handle_decl(self, decl: str) -> None:
        self.bad.append("a declaration")

    def unknown_decl(self, data: str) -> None:
        self.bad.append("a declaration")

    def handle_pi(self, data: str) -> None:
        self.bad.append("an instruction")


def nbconvert_html(markdown: str) -> str:
    nbconvert = pytest.importorskip("nbconvert.filters.markdown_mistune")
    rendered: str = nbconvert.markdown2html_mistune(markdown)
    return rendered


def renderers() -> dict[str, Any]:
    return {
        "markdown-it": MarkdownIt("gfm-like", {"html": True, "linkify": False}).render,
        "mistune": mistune.create_markdown(escape=False, plugins=["table", "strikethrough"]),
        "nbconvert": nbconvert_html,
    }


def found_in(html: str) -> list[str]:
    parser = Found()
    parser.feed(html)
    parser.close()
    return parser.bad


@pytest.mark.parametrize("renderer", ["markdown-it", "mistune", "nbconvert"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(attack: str, renderer: str) -> None:
    """No renderer finds a tag, an event handler or a script address in any of the attacks."""
    render = renderers()[renderer]
    for text in (
        attack,
        f"a {attack} b",
        f"- {attack}",
        f"`{attack}`",
        f"\n\n{attack}\n\n{attack}",
    ):
        assert found_in(render(inert(text))) == []


TEXTUAL = [
    "`",
    "``",
    "```",
    "\n",
    "\n\n",
    "~~~",
    "    ",
    "- ",
    "> ",
    "\\",
    "&lt;",
    "|",
    ">",
    "\r",
    "a",
]
TAGS = ["<script>", "</script>", "<!--", "-->", "<img onerror=x>", "](javascript:a)", "[a", "<a\n"]
fragments = st.sampled_from([*TEXTUAL, *TAGS])


@given(st.lists(fragments, max_size=14).map("".join))
@settings(max_examples=examples(400), deadline=None)
def test_any_mixture(text: str) -> None:
    """Fences, spans, lists and tags in any combination are inert."""
    found = {name: found_in(render(inert(text))) for name, render in _FAST.items()}
    assert not any(found.values()), found


_FAST = {name: render for name, render in renderers().items() if name != "nbconvert"}


@pytest.mark.parametrize(
    "text",
    [
        "**Gentoo** is *heaviest*: 5 < 6, a <= b, x<3, 1 << 2.",
        "| a | b |\n|---|---:|\n| 1 | 2 |",
        "```python\nif a < b:\n    print(a)\n```",
        "- one\n- two\n\n1. three",
        "[a page](https://example.org/?a=1&b=2#c)",
        "$a < b$ and `x`, data: none, JavaScript is a language",
        "# Title\n\ntext — ü 😀",
    ],
)
def test_ordinary_markdown_is_left_alone(text: str) -> None:
    """Harmless formatting stays, character by character."""
    assert inert(text) == text


def test_a_tag_reads_as_it_was_written() -> None:
    """In words a tag is shown by an entity, in code with an invisible joiner."""
    assert inert("a <b> c") == "a &lt;b> c"
    assert inert("`<b>`") == "`<\u2060b>`"
    assert inert("```\n<b>\n```\n<b>") == "```\n<\u2060b>\n```\n&lt;b>"


@given(st.text(st.characters() | st.sampled_from("`<&\r"), max_size=60))
def test_one_time_is_enough(text: str) -> None:
    """Making a text inert twice changes nothing more."""
    assert inert(inert(text)) == inert(text)


FETCHES = ["src", "srcset", "href", "poster", "data", "background", "style"]


class Loaded(HTMLParser):
    """What a browser would fetch from another server; of a diagram, whether it is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in HARMLESS:
            self.found.append(tag)
        if tag != "a":
            fetched = [named.get(name) or "" for name in FETCHES]
            self.found += [value for value in fetched if ":" in value or "//" in value]
        if tag == "code" and "mermaid" in (named.get("class") or "").lower():
            self.found.append("a diagram")


@pytest.mark.parametrize("renderer", ["markdown-it", "mistune", "nbconvert"])
def test_no_spelling_of_a_picture_loads(renderer: str) -> None:
    """No spelling of a picture makes any renderer fetch it from elsewhere."""
    render = renderers()[renderer]
    found = {}
    for text in spellings("http://elsewhere.example"):
        for variant in (text, f"- {text}", f"`a` {text} `b`"):
            page = Loaded()
            page.feed(render(inert(variant)))
            page.close()
            found.update({variant: page.found} if page.found else {})
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        *ORDINARY,
        "![a plot](figures/plot.png)",
        '![Grüße, 1 (b)](../x_1-2.png "a title")',
        "![](./x.svg)",
        "![x](/files/my%20plot.png)",
        "[![a](x.png)](https://example.org)",
    ],
)
def test_pictures_beside_the_notebook_stay(text: str) -> None:
    """A plainly written local picture, and a diagram of words and arrows, stay as they are."""
    assert inert(text) == text


def test_an_answer_shown_again_is_inert() -> None:
    """The Markdown of an answer in a variable is as inert as that of the turn."""
    text = "![a\\](b](http://x/) <img src=http://x/>"
    answer = make_answer(text, (), Receipt(), Usage(), "end")
    assert answer == text and answer._repr_markdown_() == inert(text) != text
