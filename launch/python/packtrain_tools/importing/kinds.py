"""Recognises whose configuration a file is, and converts it."""

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.importing.axolotl import convert_axolotl
from packtrain_tools.importing.conversion import Conversion
from packtrain_tools.importing.keys import Keys
from packtrain_tools.importing.llama_factory import convert_factory
from packtrain_tools.importing.trl import convert_trl

NAMES = {"axolotl": "axolotl", "llama-factory": "LLaMA-Factory", "trl": "TRL"}
CONVERSIONS = {"axolotl": convert_axolotl, "llama-factory": convert_factory, "trl": convert_trl}
# Keys that only one of them has.
OWN = {
    "axolotl": "base_model micro_batch_size sequence_len sample_packing val_set_size adapter lora_target_linear "
               "evals_per_epoch saves_per_epoch dataset_prepared_path train_on_inputs num_epochs lr_scheduler",
    "llama-factory": "stage finetuning_type cutoff_len template dataset dataset_dir eval_dataset val_size lora_rank "
                     "lora_target "
                     "neat_packing quantization_bit do_train train_on_prompt mask_history plot_loss max_samples",
    "trl": "dataset_name dataset_config dataset_train_split dataset_test_split dataset_text_field use_peft "
           "assistant_only_loss completion_only_loss packing_strategy test_split_size lora_target_modules "
           "max_seq_length "
           "chat_template_path",
}
OURS = {"model", "data", "batch", "schedule", "run"}


def recognise(values: dict, file: str) -> str:
    counts = {kind: sum(key in values for key in keys.split()) for kind, keys in OWN.items()}
    if "base_model" not in values:  # the file of each has the name of its model
        counts["axolotl"] = 0
    if "model_name_or_path" not in values:
        counts["llama-factory"] = counts["trl"] = 0
    best = max(counts, key=lambda kind: counts[kind])
    others = [kind for kind in counts if kind != best and counts[kind] == counts[best]]
    if counts[best] > 0 and not others:
        return best
    if OURS & values.keys() and all(isinstance(values[key], dict) for key in OURS & values.keys()):
        raise ToolError(f"{file}: is a configuration of packtrain already", "Give it to `packtrain train`.", CONFIG)
    kinds = "base_model (axolotl), or model_name_or_path with keys of LLaMA-Factory or TRL"
    raise ToolError(f"{file}: whose configuration it is cannot be seen from its {len(values)} keys, wanted {kinds}",
                    f"Say it with --from {'|'.join(NAMES)}.", CONFIG)


def withdraw_evaluation(c: Conversion):
    """Without data for it, or without a time for it, nothing is evaluated."""
    keys = ("run.evaluate_steps", "run.evaluate_at_start", "run.early_stopping_patience", "checkpoint.keep_best")
    run, checkpoint = c.settings.get("run", {}), c.settings.get("checkpoint", {})
    if "validation" not in c.settings.get("data", {}):
        for key in keys:
            section, _, name = key.partition(".")
            if name in c.settings.get(section, {}):
                c.withdraw(key, "no data is held out: set data.validation, then it can be set")
    elif run.get("evaluate_steps") == 0:
        for key, values in (("run.early_stopping_patience", run), ("checkpoint.keep_best", checkpoint)):
            if values.get(key.partition(".")[2]):
                c.withdraw(key, "nothing is evaluated before the end: set run.evaluate_steps, then it can be set")


def convert(values: dict, file: str, kind: str, num_ranks: int) -> Conversion:
    c = Conversion(Keys(values, file), NAMES[kind], num_ranks)
    CONVERSIONS[kind](c)
    withdraw_evaluation(c)
    c.finish()
    return c
