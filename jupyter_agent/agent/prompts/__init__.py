"""The prompts: Markdown files beside this module, filled in by `render`."""

from __future__ import annotations

from importlib.resources import files


def render(name: str, **values: str) -> str:
    """The prompt `name`.md with each `{KEY}` replaced by `values["KEY"]`.

    Other braces stay as they are: prompts hold code and JSON.
    """
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace("{" + key + "}", value)
    return text.strip() + "\n"
