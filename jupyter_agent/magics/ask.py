"""Runs a turn and shows it, for `%%agent` and `ask()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from IPython.core.getipython import get_ipython

from jupyter_agent import config
from jupyter_agent.core.messages import JsonObject
from jupyter_agent.core.transcript import LiveTranscript, TurnView
from jupyter_agent.errors import AgentError, ConfigError, ToolError, broken_off
from jupyter_agent.kernel.variables import user_variables
from jupyter_agent.kernel.widget_messages import without_gone_widget
from jupyter_agent.magics.report import errors_without_secrets
from jupyter_agent.magics.surface import show
from jupyter_agent.magics.window import Window, open_window
from jupyter_agent.session.answer import Answer
from jupyter_agent.session.options import TurnKind, go_line, parse_line
from jupyter_agent.session.registry import KernelSessions, sessions_of
from jupyter_agent.tools.delegation import Assignment, Where, check
from jupyter_agent.widgets.saved import SavedOutput, saved_outputs


async def ask(
    task: str,
    *,
    session: str = "default",
    fresh: bool = False,
    plan: bool = False,
    **settings: object,
) -> Answer:
    """Give the agent a task from code: `answer = await ask("…")`, in a cell.

    Args:
        task: What to do, in plain words.
        session: The name of the conversation to go on with.
        fresh: Whether to forget that conversation first.
        plan: Whether to change nothing and end with a plan, which `%agent go` carries out.
        **settings: Settings for this turn, with `__` for a dot: `max_steps=5`.

    Raises:
        AgentError: With one line that says what was wrong.
    """
    shell = get_ipython()
    if shell is None:
        raise ConfigError("ask() works inside IPython or Jupyter only: there is no kernel here.")
    values = {key.replace("__", "."): value for key, value in settings.items()}
    turn = config.layer("ask()", values)
    kind: TurnKind = "plan" if plan else "work"
    return await run_and_show(sessions_of(shell), task, turn, session, fresh, kind=kind)


async def delegate(
    task: str | Sequence[Mapping[str, object]],
    inputs: Sequence[str] = (),
    output: Sequence[str] = (),
    *,
    where: str = "kernel",
    **settings: object,
) -> Answer:
    """Give a task to a delegate from code: `await delegate("…", ["sales"], ["monthly"])`.

    A delegate has a conversation of its own, and works in names of its own: it reads your
    variables, and you get only what it hands over.

    Args:
        task: What to do, in plain words. Or several delegates, which run side by side, each as a
            mapping with `task`, and if wanted `inputs`, `output` and `where`.
        inputs: The names of the variables that the task is about.
        output: The names of the variables that it makes. They are bound in the notebook.
        where: `kernel`, or `process` for heavy code on copies of the inputs.
        **settings: Settings for this turn, with `__` for a dot: `budget__tokens=50_000`.

    Returns:
        The report, or the reports in the order of the tasks, as an answer of `ask`.

    Raises:
        AgentError: With one line that says what was wrong.
    """
    shell = get_ipython()
    if shell is None:
        raise ConfigError("delegate() works inside IPython or Jupyter only: there is no kernel.")
    one = {"task": task, "inputs": inputs, "output": output, "where": where}
    given = [one] if isinstance(task, str) else task
    sessions = sessions_of(shell)
    assignments = [_assignment(each) for each in given]
    _check(assignments, list(user_variables(shell)))
    values = {key.replace("__", "."): value for key, value in settings.items()}
    turn = config.layer("delegate()", {"answers.samples": 1, **values})
    words = "\n".join(str(each["task"]) for each in assignments)
    return await run_and_show(sessions, words, turn, "delegates", False, given=assignments)


def _assignment(given: Mapping[str, object]) -> JsonObject:
    """The arguments of the call for what a person gives to a delegate."""
    if not isinstance(given, Mapping):
        raise ConfigError("delegate(): give a task in words, or a list of mappings with a `task`.")
    if unknown := [str(key) for key in given if key not in ("task", "inputs", "output", "where")]:
        raise ConfigError(f"delegate(): {unknown[0]!r} is none of task, inputs, output, where.")
    return {
        "task": given.get("task", ""),
        "inputs": _names(given, "inputs"),
        "output": _names(given, "output"),
        "where": given.get("where", "kernel"),
    }


def _check(given: Sequence[JsonObject], variables: Sequence[str]) -> None:
    if not given:
        raise ConfigError("delegate(): there is no task.")
    for each in given:
        if not isinstance(each["task"], str):
            raise ConfigError("delegate(): a task is a text in plain words.")
        if each["where"] not in get_args(Where):
            places = " or ".join(map(repr, get_args(Where)))
            raise ConfigError(f"delegate(): where is {places}, not {each['where']!r}.")
        try:
            check(
                Assignment("", each["task"].strip(), (*each["inputs"],), (*each["output"],)),
                variables,
            )
        except ToolError as error:
            raise ConfigError(f"delegate(): {error}") from None


def _names(given: Mapping[str, object], key: str) -> list[str]:
    value: Any = given.get(key, ())
    names = list(value) if isinstance(value, list | tuple) else [value]
    for name in names:
        if not isinstance(name, str):
            kind = type(name).__name__
            raise ConfigError(f"delegate(): {key} takes names, such as 'df', and no {kind} itself.")
    return names


async def run_agent_cell(shell: Any, line: str, cell: str) -> None:
    """Run one `%%agent` cell.

    Args:
        shell: The IPython shell.
        line: The rest of the first line.
        cell: The task.
    """
    with errors_without_secrets():
        options = parse_line(line)
        answer = await run_and_show(
            sessions_of(shell),
            cell,
            options.settings,
            options.session,
            options.fresh,
            options.skills,
            options.kind,
        )
    if options.into:
        shell.user_ns[options.into] = answer


async def run_and_show(
    sessions: KernelSessions,
    task: str,
    turn: config.Layer,
    session_name: str,
    fresh: bool,
    skills: Sequence[str] = (),
    kind: TurnKind = "work",
    given: Sequence[JsonObject] = (),
) -> Answer:
    """Run one turn, show it, publish its saved form and return its answer. Raises `AgentError`."""
    session, kernel, watch = sessions[session_name], sessions.kernel, LiveTranscript()
    if fresh:
        session.reset()
    window: Window | None = None
    with kernel.interrupts.installed():
        try:
            with kernel.turn(turn) as settings:
                window = open_window(kernel, settings)
                answer = await session.ask(
                    task,
                    settings,
                    sinks=[watch, window.sink],
                    user=window.user,
                    skills=skills,
                    kind=kind,
                    given=given,
                )
            cell = session.proposed_cell(answer)
            if kind == "plan" and session.plan_waits and settings.mode != "replay":
                cell = go_line(session_name)
            if cell:
                kernel.shell.set_next_input(cell, replace=False)
            return answer
        except AgentError:
            raise
        except Exception as error:
            raise broken_off(error) from error
        finally:
            view = watch.view
            if view.stop_reason is not None:
                sessions.ended(view)
            if window is not None and not await window.close(lasting_outputs(view)):
                sessions.keep(window.forget)


def publish(view: TurnView) -> None:
    """Show a finished turn's saved form again; plain HTML in place of widgets that are gone."""
    found = lasting_outputs(view)
    show([replace(output, data=without_gone_widget(output.data)) for output in found])


def lasting_outputs(view: TurnView) -> list[SavedOutput]:
    """The saved form; empty for a turn that failed before its first step."""
    if view.stop_reason in (None, "error") and not any(
        step.text or step.calls or step.notices or step.said for step in view.steps
    ):
        return []
    return saved_outputs(view)
