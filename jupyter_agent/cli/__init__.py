"""`jupyter agent COMMAND`, also `jupyter-agent COMMAND`."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import click

from jupyter_agent.cli.check import check
from jupyter_agent.cli.demo import demo
from jupyter_agent.cli.doctor import doctor
from jupyter_agent.cli.init import init
from jupyter_agent.cli.record import record
from jupyter_agent.cli.run import run
from jupyter_agent.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="jupyter-agent")
def main() -> None:
    """An agent that lives in the kernel of a Jupyter notebook."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a pipe of Windows may know few characters


main.add_command(check)
main.add_command(demo)
main.add_command(doctor)
main.add_command(init)
main.add_command(record)
main.add_command(run)
