"""Which tests a run has and in which order, and one real kernel for each test module.

A module is one unit of work for `-n 2` (`--dist loadscope`), so what it builds is built once.
"""

from __future__ import annotations

import gc
import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator

import generated
import pytest
from hypothesis import settings
from live_kernel import LiveKernel
from steered import Steered
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The same examples each time, so that a change is judged by the change. `deep` has many more, and
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("commit", max_examples=20, derandomize=True, deadline=None)
settings.register_profile("deep", max_examples=100, derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=100, print_blob=True, deadline=None)
settings.load_profile(generated.PROFILE)

LONGEST = (
    "browser/test_lab.py",
    "browser/test_cells.py",
    "browser/test_page.py",
    "browser/test_live_js.py",
    "browser/test_displays.py",
    "browser/test_prose.py",
    "browser/test_place.py",
    "browser/test_questions.py",
    "browser/test_delegates.py",
    "test_examples.py",
    "magics/test_trust.py",
    "magics/test_restart.py",
    "security/test_folders.py",
    "security/test_self_promotion.py",
    "security/test_trusted_turns.py",
    "mcp/test_servers.py",
    "test_golden.py",
    "security/test_secrets.py",
    "magics/test_mcp.py",
    "mcp/test_kernel.py",
    "magics/test_memory.py",
    "magics/test_recorded_person.py",
    "cli/test_ci_recipe.py",
    "magics/test_undo.py",
    "cli/test_record.py",
    "cli/test_record_varying.py",
    "llm/test_local.py",
    "magics/test_local.py",
    "docs/test_site.py",
    "notebooks/test_cluster.py",
    "kernel/test_child.py",
    "cli/test_run_tasks.py",
    "test_demo.py",
)
"""The modules that begin first, so that both workers end at about the same time."""
COSTLY = {
    "browser/": 3,
    "magics/": 3,
    "mcp/": 3,
    "cli/": 3,
    "kernel/": 3,
    "security/test_self_promotion": 3,
    "security/test_trusted_turns": 4,
    "tools/test_code": 3,
    "faults/": 6,
    "llm/test_local": 3,
    "agent/test_facts.py::test_facts": 2,
    "core/test_safe_yaml.py::test_what_nests_too_deeply": 3,
    "stores/test_runlog_size.py::test_a_hundred_steps": 3,
    "widgets/test_hostile.py::test_hostile_words[": 3,
}
"""Where each variant of a test takes a turn in a kernel, a page or a process, or where there are
hundreds: of so many variants a whole run has one."""
WHOLE = 3_000
"""Tests in a run that is of the whole suite."""


def pytest_configure(config: pytest.Config) -> None:
    """One seed for all workers, which inherit the environment: a commit has the same samples each
    time, so that who tries it before sees what CI will see; the next one has others. Hundreds of
    kernels and commands start: each would compile the package anew without its bytecode."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault(generated.SEED, str(generated.seed_of_commit()))
    # Of a shell that runs us in the background we inherit to ignore Ctrl-C, and so would kernels.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # All that is imported and collected stays to the end: looking for what is not costs seconds.
    gc.disable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """One browser at a time: with a JupyterLab and its kernels it is work for two cores. Several
    beside each other wait for themselves, and for so long that nobody knows what else is wrong.
    """
    return OneBrowser(config, log)


class OneBrowser(LoadScopeScheduling):
    """A module is a unit of work; all tests in a browser are one."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return "browser" if "/browser/" in scope else scope


def pytest_report_header(config: pytest.Config) -> str:
    seed = f"{generated.SEED}={os.environ[generated.SEED]}"
    return f"examples: {generated.PROFILE}; samples: {seed} repeats them"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest modules first; in a module the order stays.

    Of a test with variants that is COSTLY, a run of the whole suite has some, at least one, drawn
    by its seed; `make test-deep` has all, and so has a run that names its tests.
    """
    if generated.PROFILE == "commit" and len(items) > WHOLE:
        left_out = _left_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=_place)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    variants: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test, _, variant = item.nodeid.partition("[")
        if variant and _share(item) > 1 and not item.get_closest_marker("deep"):
            variants[test].append(item)
    chance = random.Random(generated.seed())
    return {
        item
        for _, some in sorted(variants.items())
        for item in chance.sample(some, len(some) - max(1, len(some) // _share(some[0])))
    }


def _share(item: pytest.Item) -> int:
    test = item.nodeid.removeprefix("tests/")
    return next((share for place, share in COSTLY.items() if test.startswith(place)), 1)


def _path(nodeid: str) -> str:
    return nodeid.partition("::")[0].removeprefix("tests/")


def _place(item: pytest.Item) -> int:
    path = _path(item.nodeid)
    return LONGEST.index(path) if path in LONGEST else len(LONGEST)


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Cassettes that tests record are no part of what whoever runs them trusts, and what they
    remember no part of their memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path_factory.mktemp("jupyter_config")))
        patch.setenv("JUPYTER_DATA_DIR", str(tmp_path_factory.mktemp("jupyter_data")))
        yield


@pytest.fixture(scope="module")
def module_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveKernel]:
    with LiveKernel(tmp_path_factory.mktemp("kernel")) as kernel:
        kernel.load()
        yield kernel


@pytest.fixture(scope="module")
def steered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steered]:
    steered = Steered(tmp_path_factory.mktemp("steered"))
    with steered.theirs, steered.own, steered.kernel as kernel:
        kernel.load()
        yield steered


@pytest.fixture
def kernel(module_kernel: LiveKernel) -> Iterator[LiveKernel]:
    """The module's kernel. A test that leaves it dead or busy fails, the next gets a new one."""
    yield module_kernel
    if not module_kernel.answers():
        module_kernel.restart()
        pytest.fail("the kernel did not answer after the test")
