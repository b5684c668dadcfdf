"""What tests of encoded frozen weights share: settings, and the tensors in each of our parameters of a layer."""

PARTS = {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
         "attention.output": ["self_attn.o_proj"],
         "mlp.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
         "mlp.down": ["mlp.down_proj"]}

FROZEN = "model.frozen=[embed.weight, head.weight, 'layers.*']"
ONE_STEP = ["optimizer.learning_rate=0", "optimizer.weight_decay=0", "run.max_steps=1"]
STEPS = ["run.max_steps=4", "optimizer.learning_rate=0.01", "checkpoint.save_steps=2"]
LORA = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=8", *STEPS]
