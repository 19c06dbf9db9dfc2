"""Every code block of README.md and docs/ is read by real parsers; cells run in a kernel."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from cli.command import run as command
from docs.blocks import (
    CELLS,
    DIRECTIVES,
    PAGES,
    ROOT,
    Block,
    PageError,
    blocks,
    code_spans,
    tokens,
)
from docs.reading import (
    Wrong,
    read,
    read_agent_cell,
    read_cell,
    read_make,
    read_ours,
    read_shell,
    read_variable,
    tasks_of,
)
from live_kernel import LiveKernel

from jupyter_agent import config
from jupyter_agent.config import keys
from jupyter_agent.core.environment import ENVIRONMENT_PREFIX
from jupyter_agent.errors import AgentError
from jupyter_agent.magics.commands import COMMANDS
from jupyter_agent.session.options import OPTIONS

GROUPS = {key.partition(".")[0] for key in keys() if "." in key}
DONE = [{"text": "Done."}]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def with_cells(page: Path) -> bool:
    """Whether there is a cell to run; also where that cannot be said, so that a test says why."""
    try:
        found = blocks(page)
    except PageError:
        return True
    return any(
        (block.language in CELLS and block.note("not run") is None) or block.note("run") is not None
        for block in found
    )


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the person's own."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    for variable in [each for each in os.environ if each.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(variable)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_right(page: Path, tmp_path: Path) -> None:
    """What a block says exists: commands, options, settings, targets, files that parse."""
    wrong = []
    for number, block in enumerate(blocks(page)):
        if block.language in DIRECTIVES:
            continue
        (folder := tmp_path / str(number)).mkdir()
        try:
            read(block, folder)
        except (Wrong, AgentError, ValueError, SyntaxError, yaml.YAMLError) as error:
            wrong.append(f"{block.where}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", [page for page in PAGES if with_cells(page)], ids=name)
def test_cells_run(page: Path, module_kernel: LiveKernel, tmp_path: Path) -> None:
    """The cells of a page run in a real kernel, in order; a scripted model does the tasks."""
    module_kernel.begin_anew(tmp_path)
    shown = ""
    for block in blocks(page):
        if block.note("not run") is not None:
            continue
        if block.language in CELLS:
            shown = run(module_kernel, block)
        elif name_of_file := block.note("file"):
            (tmp_path / name_of_file).write_text(block.text, encoding="utf-8")
        elif replies := block.note("run"):
            shown = run_command(block, replies, tmp_path)
        elif block.note("output") is not None:
            assert without_times(block.text.strip()) in without_times(shown), block.where


def run_command(block: Block, replies: str, folder: Path) -> str:
    """Run a `jupyter agent` command with a scripted model. Gives what it shows."""
    (folder / "home").mkdir(exist_ok=True)
    (folder / "replies.yaml").write_text(replies, encoding="utf-8")
    done = command(
        *shlex.split(block.text)[2:],
        folder=folder,
        home=folder / "home",
        JUPYTER_AGENT_PROVIDER="scripted",
        JUPYTER_AGENT_SCRIPT=str(folder / "replies.yaml"),
    )
    assert done.returncode == 0, f"{block.where}: {done.stdout}{done.stderr}"
    return done.stdout


def without_times(text: str) -> str:
    """A text with all seconds alike, and all blanks."""
    return re.sub(r"\b\d+(\.\d| s\b)", "#", re.sub(r" +", " ", text))


def run(kernel: LiveKernel, block: Block) -> str:
    """Run a cell as its notes say. Gives what it shows."""
    if given := block.note("given"):
        kernel.helper(given)
    if block.note("by a model that writes code") is not None:
        by_a_model(kernel, block)
        return ""
    replies = yaml.safe_load(block.note("replies") or "null") or DONE
    if tasks := tasks_of(block.text):
        script = [{"task": task, "replies": replies} for task in tasks]
        path = kernel.folder / f"script_{block.line}.yaml"
        path.write_text(yaml.safe_dump(script), encoding="utf-8")
        kernel.helper("%agent config provider scripted", f'%agent config script "{path}"')
    cell = kernel.run(block.text)
    assert cell.status == "ok", f"{block.where}: {cell.error}"
    return "\n".join(text for text in (cell.stdout.rstrip(), cell.result) if text)


def by_a_model(kernel: LiveKernel, block: Block) -> None:
    """The block as the reply of a model that calls tools by writing Python."""
    task = f"Do what {block.where} does."
    kernel.helper("%agent config tool_protocol code")
    kernel.script(task, {"text": f"```python\n{block.text}```"}, *DONE)
    before = kernel.logs()
    turn = kernel.turn(kernel.run(f"%%agent --fresh\n{task}"), before)
    assert not turn.result.is_error, f"{block.where}: {turn.result.text}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_in_sentences(page: Path) -> None:
    """Commands, options, settings and variables that a sentence names exist."""
    wrong = []
    for where, text in code_spans(page):
        try:
            read_span(text)
        except (Wrong, AgentError) as error:
            wrong.append(f"{where}: `{text}`: {error}")
    assert not wrong, "\n".join(wrong)


def read_span(text: str) -> None:
    """A piece of code in a sentence, as far as it is a name of ours."""
    words = text.split()
    if not words:
        return
    if words[0] == "%agent" and len(words) > 1:
        if words[1].islower() and words[1] not in COMMANDS:
            raise Wrong("no such command.")
        if words[1] == "config" and len(words) > 2 and words[2].islower():
            config.describe(words[2])
    elif words[0] == "%%agent":
        for option in re.findall(r"--[\w-]+", text):
            read_option(option)
    elif words[:2] == ["jupyter", "agent"] or words[0] == "jupyter-agent":
        rest = words[1 + (words[0] == "jupyter") :]
        if rest and rest[0].islower():
            read_ours([rest[0], "--help"])
    elif words[0] == "make" and len(words) == 2:
        read_make(words[1:])
    elif re.fullmatch(rf"{ENVIRONMENT_PREFIX}[A-Z_]+(=\S+)?", text):
        read_variable(*text.split("=", 1))
    elif match := re.fullmatch(r"([a-z_]+(?:\.[a-z_]+)?)(?:: ([\w.]+))?", text):
        read_setting(match[1], match[2])


def read_setting(key: str, value: str | None) -> None:
    if value is not None and key in keys():
        config.layer("the sentence", {key: value}, text=True)
    elif key.partition(".")[0] in GROUPS and "." in key and not key.endswith((".py", ".md")):
        config.describe(key)


def read_option(option: str) -> None:
    known = {each for param in OPTIONS.params for each in param.opts}
    if option not in known:
        raise Wrong(f"%%agent has no option {option}.")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_line_is_lost(page: Path) -> None:
    """No line of a sentence begins with a percent sign: Sphinx would take it for a comment."""
    source = page.read_text(encoding="utf-8").split("\n")
    sentences = (part.map for part in tokens(page) if part.type == "inline" and part.map)
    lines = (line for start, end in sentences for line in source[start:end])
    assert [line for line in lines if line.lstrip().startswith("%")] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=name)
def test_links_lead_to_files(page: Path) -> None:
    """Links and pictures that are no addresses name files, as a code host shows them."""
    pieces = [piece for part in tokens(page) for piece in part.children or ()]
    found = [str(piece.attrs.get("href", piece.attrs.get("src", ""))) for piece in pieces]
    targets = {link.partition("#")[0] for link in found if "://" not in link} - {""}
    assert [each for each in targets if not (page.parent / each).exists()] == []


BAD = {
    "no language": "```\nx\n```",
    "indented": "Words:\n\n    x = 1\n",
    "unknown note": "<!-- test: skip -->\n```python\nx\n```",
    "no reason": "<!-- test: not run -->\n```python\nx\n```",
    "dangling": "<!-- test: not run, it waits -->\n\nWords.\n\n```python\nx\n```",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_blocks_that_nobody_would_test(text: str, tmp_path: Path) -> None:
    """A block cannot be passed over by accident, nor without a reason."""
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(PageError):
        blocks(page)


WRONG = [
    ("python", "def x(:"),
    ("python", "x = 1\n%%agent\nA task."),
    ("ipython", "%agent statsu"),
    ("ipython", "%agent config max_stepz 3"),
    ("ipython", "%agent config max_steps many"),
    ("ipython", "%agent status now"),
    ("ipython", "%%agent --budgte 3\nA task."),
    ("ipython", "%%agent --approve maybe\nA task."),
    ("ipython", "%%agent\n"),
    ("bash", "make dmo"),
    ("bash", "jupyter agent dmo"),
    ("bash", "cd build && jupyter-agent demo --too x"),
    ("bash", "export JUPYTER_AGENT_MODUS=replay"),
    ("bash", "JUPYTER_AGENT_MODE=again pytest --nbval x.ipynb"),
    ("bash", "pytest --nbvall x.ipynb"),
    ("bash", "pip install '.[all-of-it]'"),
    ("bash", "if true; then curl x; fi"),
    ("bash", "jupyter nbconvert --too html x.ipynb"),
    ("yaml", "max_stepz: 3"),
    ("yaml", "jobs: {a: {steps: [{run: make dmo}]}}"),
    ("yaml", "- task: x\n  replies: [{txt: y}]"),
    ("json", '{"mcpServers": {"a": {"comand": "x"}}}'),
    ("markdown", "---\nname: a\n---\nBody."),
    ("text", "anything"),
    ("perl", "1"),
]


@pytest.mark.parametrize(("language", "text"), WRONG)
def test_what_is_wrong_is_found(language: str, text: str, tmp_path: Path) -> None:
    """Misspelt commands, options, settings, targets and keys are all seen."""
    block = Block(ROOT / "README.md", 1, language, text)
    with pytest.raises((Wrong, AgentError, ValueError, SyntaxError)):
        read(block, tmp_path)


USAGES = ["%agent undo [N]", "jupyter agent demo", "jupyter agent demo [--to F] [--too F]"]


@pytest.mark.parametrize("text", USAGES)
def test_summaries_that_are_out_of_date_are_found(text: str, tmp_path: Path) -> None:
    """A summary of a command has all of its words and options, and no others."""
    with pytest.raises(Wrong):
        read(Block(ROOT / "README.md", 1, "text", text, (("usage", ""),)), tmp_path)


SPANS = [
    "%agent statsu",
    "%agent config max_stepz",
    "%%agent --budgte",
    "jupyter agent dmo",
    "make dmo",
    "JUPYTER_AGENT_MODUS=replay",
    "retry.max_retry",
    "mode: again",
]


@pytest.mark.parametrize("text", SPANS)
def test_misspelt_names_in_sentences_are_found(text: str) -> None:
    """A sentence cannot name what does not exist."""
    with pytest.raises((Wrong, AgentError)):
        read_span(text)


def test_what_is_right_passes() -> None:
    """Joined lines, pipes, subshells and conditions are understood."""
    read_shell('make demo \\\n  PYTHON=x && test -z "$(git status)" || { git status; exit 1; }')
    read_shell("git ls-files -z '*.ipynb' | xargs -0 -r python -m pytest --nbval -p x")
    read_agent_cell("%%agent --into x --budget 0.5\nA task.")
    read_cell("%agent undo 2\n%agent log show 3\n%agent config retry.max_retries 5")
