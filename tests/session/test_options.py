"""The options of a turn, read without a kernel."""

from __future__ import annotations

import pytest

from jupyter_agent.errors import ConfigError
from jupyter_agent.session.options import option_rows, options_help, parse_line, parse_options


def test_all_options() -> None:
    """Options become a settings layer and fields; options that were not typed set nothing."""
    found = parse_line(
        " --model m --max-steps 7 --approve ask_all --context names --budget 0.5 --provider none"
        " --session plots --fresh --skill one --skill two --into total"
    )
    assert dict(found.settings.values) == {
        "provider": None,
        "model": "m",
        "max_steps": 7,
        "approvals.mode": "ask_all",
        "context.detail": "names",
        "budget.usd": 0.5,
    }
    assert (found.session, found.fresh, found.skills, found.into) == (
        "plots", True, ("one", "two"), "total",
    )  # fmt: skip
    nothing = parse_line("")
    assert dict(nothing.settings.values) == {}
    assert (nothing.session, nothing.fresh, nothing.skills, nothing.into) == (
        "default", False, (), "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("--model --fresh", "argument --model: expected one argument."),
        ("--model", "argument --model: expected one argument."),
        ("--fresh=1", "--fresh takes no value."),
        ("--sesion=a", "there is no option --sesion. Did you mean --session?"),
        ("-x", "there is no option -x. The options are: --provider, "),
        ("'Plot", "No closing quotation."),
        ("--fresh Plot it", "unexpected 'Plot it'. The first line takes options only; "),
    ],
)
def test_mistakes(line: str, error: str) -> None:
    """One line says what is wrong, with the magic's name, or that of the command."""
    with pytest.raises(ConfigError) as raised:
        parse_line(line)
    assert str(raised.value).startswith(f"%%agent: {error}")
    assert "\n" not in str(raised.value)


def test_where_the_options_stand() -> None:
    """`%agent resume` takes the same options, and its errors name it."""
    with pytest.raises(ConfigError, match=r"^%agent resume: there is no option --modle\. Did"):
        parse_options(["--modle", "x"], "%agent resume")


def test_help_has_all_options() -> None:
    """`%%agent?` shows each option with what it means."""
    shown = " ".join(options_help().split())
    assert len(option_rows()) == 13
    assert all(f"{option} {meaning}" in shown for option, meaning in option_rows())
