"""Two GPUs, each of which is a host to NCCL, started by torchrun: sockets are all that joins them."""

import namespaces
import pytest
from runs import losses
from two_hosts import train

pytestmark = pytest.mark.skipif(not namespaces.are_possible(), reason=namespaces.WHY_NOT)
SETTINGS = ["precision.compute=bf16", "data.validation=", "run.max_steps=8", "checkpoint.save_steps=2", "checkpoint.keep=10",
            "checkpoint.asynchronous=false"]
FULL = ["parallel.shard_size=2"]
ONE_GPU_A_HOST = """export CUDA_VISIBLE_DEVICES=$([ "$(hostname)" = east ] && echo 0 || echo 1)
export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=card"""


@pytest.fixture(scope="module")
def one_host(lab):
    return lab.run("one-host", *SETTINGS, *FULL, ranks=2)


@pytest.mark.parametrize("settings", [FULL, []], ids=["full shard", "hybrid"])
def test_two_gpus_joined_by_sockets_train_as_on_one_host(lab, hosts, one_host, settings):
    name = f"torchrun-{len(settings)}"
    train(lab, hosts, name, "torchrun", *SETTINGS, *settings, ranks_per_host=1, before=ONE_GPU_A_HOST).finish()
    assert losses(lab.folder / "runs" / name) == pytest.approx(losses(one_host), rel=5e-3)
