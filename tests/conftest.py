"""One real kernel for each test module, and a check after each test that it still answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_kernel import LiveKernel


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
