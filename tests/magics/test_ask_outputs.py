"""What `ask()` leaves in a cell of the person's: everything, in order."""

from __future__ import annotations

from collections.abc import Iterator

import nbformat
import pytest
from front_end import FrontEnd
from live_kernel import Cell, LiveKernel, clean_environment, execute_code
from nbclient import NotebookClient

ENVIRON = {"JUPYTER_AGENT_APPROVALS__MODE": "auto"}
ASK = "from jupyter_agent import ask\n"


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel"), ENVIRON) as kernel:
        kernel.load()
        kernel.helper("from jupyter_agent import ask")
        lines = [f"- task: {task}\n  replies: [{{text: Answer {task}.}}]\n" for task in "xy"]
        (kernel.folder / "two.yaml").write_text("".join(lines * 40), encoding="utf-8")
        yield kernel


@pytest.fixture(autouse=True)
def answers(kernel: LiveKernel) -> None:
    """Whatever script the test before had."""
    kernel.helper("%agent config provider scripted", "%agent config script two.yaml")


def run(kernel: LiveKernel, source: str, *, with_page: bool = True) -> Cell:
    """Run a cell in which each task has the scripted answer, with a page that has the widget."""
    running = kernel.start(source, allow_stdin=True)
    if with_page:
        FrontEnd(kernel, running)
    return running.finish()


def shown(cell: Cell) -> list[str]:
    """Each output in a word or two: its text, or that it is a transcript."""
    words = []
    for output in cell.outputs:
        if output["type"] == "stream":
            words += output["text"].split()
        elif output["type"] == "error":
            words.append(output["ename"])
        else:
            text = str(output["data"].get("text/plain", ""))
            is_transcript = "<details" in output["data"].get("text/html", "")
            words.append("transcript" if is_transcript else text)
    return words


@pytest.mark.parametrize("with_page", [True, False])
def test_everything_stays(kernel: LiveKernel, with_page: bool) -> None:
    """Prints and displays before, between and after two calls stay in order."""
    source = (
        "from IPython.display import display\nprint('mine')\ndisplay({'df': 1})\n"
        "a = await ask('x')\nprint('mid')\nb = await ask('y')\nprint('end')"
    )
    transcripts = ["transcript", "Answer x.", "mid", "transcript", "Answer y."]
    cell = run(kernel, source, with_page=with_page)
    assert shown(cell) == ["mine", "{'df': 1}", *transcripts, "end"]


def test_twenty_in_a_loop(kernel: LiveKernel) -> None:
    """Each of twenty calls in a loop, in a function, leaves its transcript and its answer."""
    source = (
        "async def work(number):\n    print(f'n{number}')\n    return await ask('x')\n"
        "for number in range(20):\n    await work(number)"
    )
    expected = [word for n in range(20) for word in (f"n{n}", "transcript", "Answer x.")]
    assert shown(run(kernel, source)) == expected


def test_gather(kernel: LiveKernel) -> None:
    """A second call while one runs is refused in one line; the cell's outputs stay."""
    source = (
        "import asyncio\nprint('mine')\n"
        "both = await asyncio.gather(ask('x'), ask('y'), return_exceptions=True)\n"
        "print('end')\nprint(both[1])"
    )
    words = shown(run(kernel, source))
    assert words[:4] == ["mine", "transcript", "Answer x.", "end"]
    refusal = "A turn is running already. Wait for it, or interrupt the kernel."
    assert " ".join(words[4:]) == refusal


def test_an_exception_afterwards(kernel: LiveKernel) -> None:
    """A cell that fails after a call shows what came before, and its error."""
    cell = run(kernel, "print('mine')\nawait ask('x')\n1 / 0")
    assert shown(cell) == ["mine", "transcript", "Answer x.", "ZeroDivisionError"]


def test_a_call_that_fails(kernel: LiveKernel) -> None:
    """A call that fails before its first step removes no output of the cell."""
    cell = run(kernel, "print('mine')\nawait ask('a task that the script does not have')")
    assert shown(cell) == ["mine", "", "ProviderError"]


def test_updates_of_displays(kernel: LiveKernel) -> None:
    """A display with an id of the person's own is updated across calls."""
    source = (
        "from IPython.display import display\nmark = display('one', display_id='mine')\n"
        "await ask('x')\nmark.update('two')\nawait ask('y')"
    )
    words = shown(run(kernel, source))
    assert words[:5] == ["'two'", "transcript", "Answer x.", "transcript", "Answer y."]


CAPTURES = {
    "capture_output": (
        "from IPython.utils.capture import capture_output\n"
        "with capture_output() as kept:\n    print('mine')\n    a = await ask('x')\n"
        "print(len(kept.outputs), kept.stdout.strip(), 'details' in str(kept.outputs[0].data))"
    ),
    "output_widget": (
        "import ipywidgets\nout = ipywidgets.Output()\n"
        "with out:\n    a = await ask('x')\nprint('2 mine True')"
    ),
}


@pytest.mark.parametrize("kind", CAPTURES)
def test_what_is_captured(kernel: LiveKernel, kind: str) -> None:
    """Code that captures outputs gets the saved form once, and no ended view."""
    cell = run(kernel, CAPTURES[kind], with_page=False)
    assert cell.stdout.strip() == "2 mine True"
    assert "at work here" not in str(cell.outputs)


def test_under_nbclient(kernel: LiveKernel) -> None:
    """Without a front end the notebook has the same outputs."""
    source = ASK + "print('mine')\na = await ask('x')\nprint('mid')\nb = await ask('y')"
    setup = (
        "%load_ext jupyter_agent\n%agent config provider scripted\n%agent config script two.yaml"
    )
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(text) for text in (setup, source)]
    client = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(kernel.folder)}})
    client.execute(env=clean_environment(kernel.folder))
    outputs = [{"type": o.output_type, **o} for o in book.cells[1].outputs]
    transcripts = ["transcript", "Answer x.", "mid", "transcript", "Answer y."]
    assert shown(Cell("ok", tuple(outputs), {})) == ["mine", *transcripts]


def test_a_page_that_comes_back(kernel: LiveKernel) -> None:
    """The outputs of a turn that ended without a page go to the page that comes afterwards."""
    task = "Wait."
    kernel.script(task, execute_code("await __import__('asyncio').sleep(1)"), {"text": "It is 7."})
    running = kernel.start(f"%%agent --fresh\n{task}", allow_stdin=True)
    page = FrontEnd(kernel, running)
    page.keeps = False
    cell = running.finish()
    assert "It is 7." in str(cell.displays)
    assert page.opened - page.closed
    later = kernel.start("await __import__('asyncio').sleep(0.5)")
    later.watch = page._take
    page.received.clear()
    page.keeps = True
    page.send({"t": "ready", "served": False})
    later.await_that(lambda: page.opened == page.closed)
    later.finish()
    (given,) = [content for _, content in page.received if content["t"] == "end"]
    assert "It is 7." in str(given["outputs"]) and "<details" in str(given["outputs"])
