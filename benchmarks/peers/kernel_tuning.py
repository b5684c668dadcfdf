"""Kernels of Triton in the peers: tuned sooner, and timed where flash-linear-attention refuses them.

The configs of a kernel are compiled on several threads, before Triton times them one after the other. The timing, and
so the choice, is Triton's own.
"""

import concurrent.futures
import functools
import importlib.util
import os

from triton.runtime import autotuner
from triton.runtime._async_compile import AsyncCompileMode, active_mode


def compile_all(tuner, configs, options):
    """Fills Triton's cache. `options`: keyword arguments of the launch that is tuned."""
    with (concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as executor,
          AsyncCompileMode(executor, ignore_errors=True)):  # Triton reports errors when it times the config
        for config in configs:
            tuner.fn.run(*tuner.nargs.values(), **options | {"warmup": True}, **config.all_kwargs())


def compile_configs_in_parallel():
    """Changes Triton's Autotuner for this process."""
    prune = autotuner.Autotuner.prune_configs

    def prune_and_compile(self, kwargs):
        configs = prune(self, kwargs)
        if len(configs) > 1 and active_mode.get() is None and not any(one.pre_hook for one in configs):
            compile_all(self, configs, kwargs)
        return configs

    autotuner.Autotuner.prune_configs = prune_and_compile


@functools.cache  # a second call would find nothing refused
def time_refused_kernels():
    """With Triton from 3.4.0 to before 3.7.1 on Hopper, flash-linear-attention refuses a kernel of backward, because
    its numbers may be wrong. It runs after this call. True if it was refused; False without that package."""
    if importlib.util.find_spec("fla") is None:
        return False
    from fla.ops.common import chunk_o  # pylint: disable=import-outside-toplevel

    refused = chunk_o.IS_NVIDIA_HOPPER and chunk_o.TRITON_ABOVE_3_4_0 and not chunk_o.TRITON_ABOVE_3_7_1
    chunk_o.TRITON_ABOVE_3_7_1 = True
    return refused
