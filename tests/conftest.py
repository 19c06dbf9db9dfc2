"""Which tests a run has and in which order, and one real kernel for each test module.

A module is one unit of work for `-n 2` (`--dist loadscope`), so what it builds is built once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import generated
import pytest
from hypothesis import settings
from live_kernel import LiveKernel

# The same examples each time, so that a change is judged by the change. `deep` has many more, and
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("commit", max_examples=20, derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=100, derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=100, print_blob=True, deadline=None)
settings.load_profile(generated.PROFILE)

LONGEST = (
    "browser/test_lab.py",
    "browser/test_live_js.py",
    "test_examples.py",
    "magics/test_mcp.py",
    "mcp/test_kernel.py",
    "magics/test_memory.py",
    "magics/test_recorded_person.py",
    "cli/test_ci_recipe.py",
    "magics/test_undo.py",
    "cli/test_record.py",
    "llm/test_local.py",
    "magics/test_local.py",
    "docs/test_site.py",
    "execution/test_cluster.py",
    "test_demo.py",
)
"""The modules that begin first, so that both workers end at about the same time."""


def pytest_configure(config: pytest.Config) -> None:
    """One seed for all workers, which inherit the environment. Hundreds of kernels and commands
    start: each would compile the package anew where no bytecode may be kept."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault(generated.SEED, str(random.SystemRandom().randrange(10**6)))


def pytest_report_header(config: pytest.Config) -> str:
    seed = f"{generated.SEED}={os.environ[generated.SEED]}"
    return f"examples: {generated.PROFILE}; samples: {seed} repeats them"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest modules first; in a module the order stays."""
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    path = item.nodeid.partition("::")[0].removeprefix("tests/")
    return LONGEST.index(path) if path in LONGEST else len(LONGEST)


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cassettes that tests record are no part of what whoever runs them trusts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("jupyter_config")))
        yield


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture
def kernel(module_kernel: LiveKernel) -> Iterator[LiveKernel]:
    """The module's kernel. A test that leaves it dead or busy fails, the next gets a new one."""
    yield module_kernel
    if not module_kernel.answers():
        module_kernel.restart()
        pytest.fail("the kernel did not answer after the test")
