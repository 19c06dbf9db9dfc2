"""`python -m jupyter_agent.cli COMMAND`."""

from jupyter_agent.cli import main

main(prog_name="jupyter-agent")
