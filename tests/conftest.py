"""One real kernel for each test module, and a check after each test that it still answers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from live_kernel import LiveKernel

# The same examples each time, so that a change is judged by the change. To look for more:
# HYPOTHESIS_PROFILE=explore.
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


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
