"""AdamW with float32 master weights for hf.py, on one GPU and sharded by FSDP2."""

import torch
from hf_model import decoder_layers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

OPTIONS = dict(lr=1e-5, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


class MasterAdamW:
    """For a bf16 model on one GPU: converts gradients to float32, clips, updates the masters and copies
    them back."""

    def __init__(self, model):
        self.weights = list(model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        for master in self.masters:
            master.grad = torch.empty_like(master)
        # capturable: the step count is on the GPU, so that a CUDA graph may include the update.
        self.adamw = torch.optim.AdamW(self.masters, capturable=torch.cuda.is_available(),
                                       **OPTIONS)

    @torch.no_grad()
    def step(self):
        gradients = [master.grad for master in self.masters]
        torch._foreach_copy_(gradients, [weight.grad for weight in self.weights])
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.adamw.step()
        torch._foreach_copy_(self.weights, self.masters)
        for weight in self.weights:
            weight.grad = None


class ShardedAdamW:
    """For a float32 model that was sharded by shard()."""

    def __init__(self, model):
        self.model = model
        self.adamw = torch.optim.AdamW(model.parameters(), **OPTIONS)

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)


def shard(model, reshard):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in decoder_layers(model):
        fully_shard(layer, mp_policy=policy, reshard_after_forward=reshard)
    fully_shard(model, mp_policy=policy)
