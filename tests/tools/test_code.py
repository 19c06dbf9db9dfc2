"""What the model sees of the code that it runs: pictures, and nothing where data is withheld."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from generated import wires
from live_kernel import Cell, LiveKernel
from model_server import Call, ModelServer, Reply, check_anthropic, check_openai

from jupyter_agent.agent.loop import _with_few_images
from jupyter_agent.core.messages import Image, Text, ToolResult

WIRES = wires()
MARKS = re.compile("zqmark|718.?392", re.IGNORECASE)


class Talk:
    """A kernel whose agent asks a server; the server's script is set for each turn."""

    def __init__(self, kernel: LiveKernel) -> None:
        self.kernel = kernel
        self.replies: Iterator[Reply] = iter(())
        self.server = ModelServer(lambda body: next(self.replies))

    def choose(self, wire: str) -> None:
        base = self.server.anthropic_url if wire == "anthropic" else self.server.openai_url
        self.kernel.helper(f"%agent config provider {wire}", f"%agent config api_base {base}")

    def turn(self, *steps: tuple[str, ...] | Call) -> Cell:
        """A turn in which each step runs some code; what was sent is in the server's requests."""
        self.server.requests.clear()
        calls = [(step,) if isinstance(step, Call) else tuple(map(code, step)) for step in steps]
        self.replies = iter([*(Reply(calls=call) for call in calls), Reply(text="Done.")])
        cell = self.kernel.run("%%agent --fresh --context none\nGo.")
        assert cell.status == "ok", cell.error
        for request in self.server.requests:
            is_anthropic = request.path.endswith("messages")
            (check_anthropic if is_anthropic else check_openai)(request.body)
        return cell

    @property
    def results(self) -> str:
        """What the last request holds besides the model's own words."""
        body = self.server.requests[-1].body
        said = [m for m in body["messages"] if m["role"] in ("user", "tool")]
        return json.dumps(said, ensure_ascii=False)

    def pictures(self) -> list[str]:
        """The pictures of the last request, as base64."""
        anthropic = re.findall(r'"media_type": "image/png", "data": "([^"]+)"', self.results)
        return anthropic or re.findall(r'"url": "data:image/png;base64,([^"]+)"', self.results)


def code(text: str) -> Call:
    return Call("execute_code", json.dumps({"code": text}))


@pytest.fixture(scope="module")
def module_talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    with LiveKernel(tmp_path_factory.mktemp("talk")) as kernel:
        talk = Talk(kernel)
        with talk.server:
            kernel.load("config api_key k", "config model m", "config retry.enabled false")
            yield talk


@pytest.fixture
def talk(module_talk: Talk) -> Talk:
    defaults = (
        "privacy.outputs full",
        "images.enabled true",
        "images.per_step 4",
        "images.max_side 768",
    )
    module_talk.kernel.helper(*(f"%agent config {default}" for default in defaults))
    module_talk.choose("anthropic")
    return module_talk


# Pictures ----------------------------------------------------------------------------------------

PICTURE = "from PIL import Image as P\ndisplay(P.new('RGB', ({0}, 20), ({0} % 256, 2, 3)))"


@pytest.mark.parametrize("wire", WIRES)
def test_a_picture_goes_to_the_model(talk: Talk, wire: str) -> None:
    """A displayed picture is sent, scaled, in the format's own form."""
    talk.choose(wire)
    talk.turn((PICTURE.format(2000),))
    (picture,) = talk.pictures()
    assert "the picture is below" in talk.results
    talk.kernel.helper("import base64, io", "from PIL import Image as P")
    size = f"P.open(io.BytesIO(base64.b64decode({picture!r}))).size"
    assert talk.kernel.value(size) == (768, 8)
    talk.kernel.helper("%agent config images.max_side 100")
    talk.turn((PICTURE.format(2000),))
    (picture,) = talk.pictures()
    assert talk.kernel.value(f"P.open(io.BytesIO(base64.b64decode({picture!r}))).size") == (100, 1)


@pytest.mark.parametrize("wire", WIRES)
def test_no_pictures(talk: Talk, wire: str) -> None:
    """With pictures switched off a line of text says what the person sees."""
    talk.choose(wire)
    talk.kernel.helper("%agent config images.enabled false")
    cell = talk.turn((PICTURE.format(50),))
    assert talk.pictures() == [] and '"type": "image' not in talk.results
    assert "[shown to the person: image/png" in talk.results
    assert any("image/png" in data for data in cell.displays)


def test_no_pictures_of_files(talk: Talk) -> None:
    """With pictures switched off a picture's file is not sent, either."""
    talk.kernel.helper("from PIL import Image as P", "P.new('RGB', (9, 9)).save('dot.png')")
    talk.kernel.helper("%agent config images.enabled false")
    talk.turn(Call("read_file", json.dumps({"path": "dot.png"})))
    assert talk.pictures() == [] and "dot.png" in talk.results


@pytest.mark.parametrize("wire", WIRES)
def test_few_pictures_in_one_step(talk: Talk, wire: str) -> None:
    """Of more pictures in a step than allowed the rest is counted in a line."""
    talk.choose(wire)
    talk.kernel.helper("%agent config images.per_step 3")
    shows = ["\n".join(PICTURE.format(start + n) for n in range(3)) for start in (20, 30)]
    cell = talk.turn((shows[0], shows[1]))
    assert len(talk.pictures()) == 3
    assert "3 pictures are not sent to you" in talk.results
    assert sum("image/png" in data for data in cell.displays) == 6


def test_each_step_has_its_own_pictures(talk: Talk) -> None:
    """The limit of pictures is for each step."""
    talk.kernel.helper("%agent config images.per_step 1")
    talk.turn((PICTURE.format(40),), (PICTURE.format(41),))
    assert len(set(talk.pictures())) == 2 and "more pictures" not in talk.results


def test_a_broken_picture(talk: Talk) -> None:
    """A displayed file that is no picture is not sent, and the turn goes on."""
    talk.turn(("display({'image/png': 'no base64', 'text/plain': 'a dot'}, raw=True)",))
    assert talk.pictures() == [] and "a dot [shown to the person: image/png]" in talk.results


def results(*counts: int, same: bool = False) -> list[ToolResult]:
    """Results with so many pictures each."""
    return [
        ToolResult(
            f"c{index}",
            (
                Text("t"),
                *(Image("image/png", "x" if same else f"{index}{n}") for n in range(count)),
            ),
        )
        for index, count in enumerate(counts)
    ]


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(
    ("counts", "most", "kept"),
    [
        ((1, 1), 4, [1, 1]),
        ((3, 3), 4, [3, 1]),
        ((5, 2), 4, [4, 0]),
        ((2, 0, 2), 2, [2, 0, 0]),
        ((2,), 1, [1]),
        ((1, 1), 0, [0, 0]),
    ],
)
def test_the_bound_over_results(
    counts: tuple[int, ...], most: int, kept: list[int], same: bool
) -> None:
    """Over several results the first pictures stay, equal ones included; the rest is counted."""
    bounded = _with_few_images(results(*counts, same=same), most)
    found = [sum(isinstance(block, Image) for block in result.content) for result in bounded]
    assert found == kept
    for result, before, after in zip(bounded, counts, kept, strict=True):
        notice = f"({before - after} pictures are not sent to you)"
        assert (notice in result.text) == (before > after)


# Withheld data -----------------------------------------------------------------------------------

DATA = "import sys, pandas as pd\nmark = 'zq' + 'mark'\n"
LEAKS = {
    "stdout": ("print(mark, 718392465)", "stdout: 1 lines"),
    "stderr": ("print(mark, file=sys.stderr)", "stderr: 1 lines"),
    "value": ("[mark, 718392465]", "value: list, 2 items"),
    "text value": ("mark", "value: str"),
    "number": ("718392464 + 1", "value: int"),
    "frame": ("pd.DataFrame({'a': [mark]}, index=[mark])", "value: DataFrame, 1 row × 1 column"),
    "display": ("display({mark: mark}, mark)", "display: text/plain"),
    "html": ("from IPython.display import HTML\nHTML(f'<b>{mark}</b>')", "value: "),
    "picture": (PICTURE.format(50), "display: "),
    "exception": ("raise ValueError(mark, 718392465)", "error: ValueError in line 3"),
    "assertion": ("assert mark == 'x', f'{mark}!'", "error: AssertionError"),
    "key error": ("{}[mark]", "error: KeyError"),
    "chained": ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    int(mark)", "error: ValueError"),
    "exit": ("sys.exit(mark)", "error: SystemExit"),
    "shell": ("!echo {mark}", "stdout"),
    "failing repr": (
        "class Bad:\n    def __repr__(self): raise ValueError(mark)\nBad()",
        "error: ",
    ),
    "warning": ("import warnings\nwarnings.warn(mark)", "stderr: "),
    "help": ("def helped(): pass\nhelped.__doc__ = mark\nget_ipython().run_line_magic("
             "'pinfo', 'helped')", ""),
    "usage error": ("get_ipython().run_line_magic(mark, '')", "error: UsageError"),
    "long": ("print((mark + chr(10)) * 100_000)", "stdout: 100001 lines"),
    "update": ("h = display('x', display_id=True)\nh.update(mark)", "display: "),
    "time-out": ("print(mark)", "stdout"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "told"), LEAKS.values(), ids=LEAKS.keys())
def test_withheld_outputs(talk: Talk, source: str, told: str) -> None:
    """With outputs withheld only the kind and size of shown data are sent."""
    talk.kernel.helper("%agent config privacy.outputs shapes")
    cell = talk.turn((DATA + source,))
    assert not MARKS.search(talk.results), talk.results
    assert told in talk.results and "privacy.outputs is shapes" in talk.results
    assert talk.pictures() == []
    shown = json.dumps(cell.outputs, ensure_ascii=False)
    assert "image/png" in shown if source == LEAKS["picture"][0] else MARKS.search(shown)


@pytest.mark.parametrize("wire", WIRES)
def test_withheld_outputs_in_both_formats(talk: Talk, wire: str) -> None:
    """With outputs withheld no request of the turn holds any shown data."""
    talk.choose(wire)
    talk.kernel.helper("%agent config privacy.outputs shapes")
    shown = [DATA + source for source, _ in LEAKS.values()][:8]
    inspect = Call("inspect_variable", json.dumps({"name": "mark", "detail": "full"}))
    cell = talk.turn(tuple(shown), inspect)
    sent = [json.dumps(r.body["messages"][-1]) for r in talk.server.requests]
    assert not MARKS.search("".join(sent)) and "mark: str" in sent[-1]
    assert "zqmark" in cell.transcript


def test_the_long_output_of_withheld_data(talk: Talk) -> None:
    """With outputs withheld the model cannot read the file of a long output."""
    talk.kernel.helper("%agent config privacy.outputs shapes")
    talk.turn((DATA + "print((mark + chr(10)) * 100_000)",))
    folder = talk.kernel.folder / ".jupyter_agent" / "outputs"
    for path in folder.glob("*.txt"):
        talk.turn(Call("read_file", json.dumps({"path": f".jupyter_agent/outputs/{path.name}"})))
        assert not MARKS.search(talk.results)


def test_full_outputs_do_go_to_the_model(talk: Talk) -> None:
    """Without withholding printed data are sent, so that the tests above can fail."""
    talk.turn((DATA + "print(mark, 718392465)",))
    assert "zqmark 718392465" in talk.results
