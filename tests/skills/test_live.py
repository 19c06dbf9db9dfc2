"""Skills in a real kernel: listed, loaded by the model and by hand, imported, replayed."""

from __future__ import annotations

import shutil
from pathlib import Path

from live_kernel import LiveKernel

DATA = Path(__file__).parents[2] / "example_notebooks/data/penguins.csv"
CODE = """
from jupyter_agent_skills.exploring_tables import overview
print(overview.summary(pd.read_csv("penguins.csv")))
"""


def call(name: str, /, **arguments: object) -> dict[str, object]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_a_skill_is_loaded_used_and_put_back(tmp_path: Path) -> None:
    """The model loads a skill, reads a file and runs a script; no path of this machine shows."""
    shutil.copy(DATA, tmp_path)
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        kernel.helper("import pandas as pd")
        kernel.script(
            "Explore.",
            call("get_skill", name="exploring-tables"),
            call("read_file", path="skill:plotting-well/references/choosing.md", limit=1),
            call("execute_code", code=CODE),
            {"text": "Done."},
        )
        kernel.run("%%agent\nExplore.")
        skill, file, code = kernel.value(
            "[b.content[0].text for m in get_ipython().agent_sessions['default'].history "
            "for b in m.tool_results]"
        )
        assert skill.startswith('<skill_content name="exploring-tables">')
        assert "from jupyter_agent_skills.exploring_tables import overview" in skill
        assert file.startswith("     1|# Which form for which question")
        assert code.startswith("344 rows, 8 columns")
        assert str(tmp_path) not in skill + file + code
        active = kernel.value(
            "get_ipython().agent_sessions['default'].setup.resources.skills.active"
        )
        assert active == ["exploring-tables"]


def test_skills_of_the_workspace_by_hand(tmp_path: Path) -> None:
    """A skill that came with the workspace is refused, trusted, and then loaded by hand."""
    folder = tmp_path / ".agents/skills/own"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: own\ndescription: d\n---\nSay moo.\n")
    with LiveKernel(tmp_path) as kernel:
        kernel.load()
        kernel.script("go", {"text": "Moo."})
        assert "not trusted" in kernel.run("%%agent\n/own go").error
        assert "Not used until you trust them" in kernel.run("%agent skills").said
        kernel.run("%agent skills trust own")
        kernel.run("%agent reset")
        kernel.script("go", {"text": "Moo."})
        kernel.run("%%agent --skill own --skill plotting-well\n/own go")
        blocks = kernel.value(
            "[(b.type, b.text[:40]) for b in "
            "get_ipython().agent_sessions['default'].history[0].blocks]"
        )
        assert blocks[0] == ("text", "go")
        assert [kind for kind, _ in blocks] == ["text", "context", "context"]
        assert blocks[1][1].startswith("<rules source=")
        assert blocks[2][1] == '<skill_content name="own">\n---\nname: own'[:40]


def test_a_cassette_outlives_a_better_worded_skill() -> None:
    """The text of a skill does not count for a cassette; which skill it was, and errors, do."""
    from jupyter_agent.core.messages import Message, Text, ToolResult
    from jupyter_agent.recording.comparison import items

    def counted(text: str) -> str:
        (item,) = items(Message("user", (ToolResult("c1", (Text(text),)),)))
        return item.text

    old, new, other = (
        f'<skill_content name="{name}">\n---\nname: x\n---\n{body}\n</skill_content>'
        for name, body in (
            ("a", "Old words."),
            ("a", "New words.\n\n- f (3 bytes)"),
            ("b", "Old words."),
        )
    )
    assert counted(old) == counted(new) == "<skill a>" != counted(other)
