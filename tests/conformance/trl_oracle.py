"""TRL as the oracle of objectives: losses of its trainers on random models, one group at a time. Each class has the
groups as TRL tokenized them, what conformance_tool reads of them, and TRL's loss and statistics."""

import copy

import family
import oracle
import torch
from datasets import Dataset
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig, KTOTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

SPECIAL = ["<unknown>", "<end>", "<pad>"]
NUM_WORDS = 80
PAIR_WEIGHTS = [0.25, 0.6, 0.15]
CHOSEN, REJECTED, DESIRABLE, UNDESIRABLE, ROLLOUT = range(5)


def tokenizer():
    words = {word: number for number, word in enumerate(SPECIAL + [f"w{i}" for i in range(NUM_WORDS)])}
    words_only = Tokenizer(models.WordLevel(words, unk_token="<unknown>"))
    words_only.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words_only, unk_token="<unknown>", eos_token="<end>",
                                   pad_token="<pad>")


def text(num_words, generator):
    return " ".join(f"w{i}" for i in torch.randint(NUM_WORDS, (num_words,), generator=generator).tolist())


def pair_texts(prompt_lengths=(4, 2, 7)):
    generator = torch.Generator().manual_seed(1)
    answers = zip(prompt_lengths, (3, 6, 1), (5, 2, 9), strict=True)
    return [{"prompt": text(prompt, generator), "chosen": " " + text(chosen, generator),
             "rejected": " " + text(rejected, generator)} for prompt, chosen, rejected in answers]


def arguments(kind, folder, **options):
    return kind(output_dir=str(folder / "trl"), use_cpu=True, report_to=[], bf16=False, gradient_checkpointing=False,
                disable_tqdm=True, **options)


def log_probs_of(model, ids):
    """Returns the log-probability of each token but the first, [T - 1]."""
    logits = model(ids.unsqueeze(0), use_cache=False).logits[0, :-1]
    return logits.log_softmax(-1).gather(1, ids[1:].unsqueeze(1)).squeeze(1)


class Groups:
    """Examples, in the order of the tool's batch."""

    def __init__(self, folder):
        self.folder = folder
        case = family.cases_of("llama")[0]
        self.model, _ = oracle.random_model(case, [])
        self.reference, _ = oracle.random_model(case, [], seed=1)
        self.model.save_pretrained(folder / "model")
        self.model.train()  # it has no dropout
        self.examples = []  # (ids, number of tokens of the prompt, role, weight of its group)
        self.loss_weights = []
        self.loss = torch.zeros(())
        self.columns = {}
        self.statistics = {}

    def add(self, ids, num_prompt, role, group_weight, loss_weight):
        """`loss_weight`: of each token of the answer."""
        self.examples.append((ids, num_prompt, role, group_weight))
        self.loss_weights += [loss_weight] * (len(ids) - num_prompt)

    def num_rows(self):
        return [len(ids) - num_prompt for ids, num_prompt, *_ in self.examples]

    def reference_log_probs(self):
        with torch.no_grad():
            return torch.cat([log_probs_of(self.reference, ids)[num_prompt - 1:]
                              for ids, num_prompt, *_ in self.examples])

    def save(self):
        """Writes what the tool reads, and TRL's gradients."""
        rows, begin = [], 0
        for ids, num_prompt, *_ in self.examples:
            rows += range(begin + num_prompt - 1, begin + len(ids) - 1)
            begin += len(ids)
        sequences = [ids for ids, *_ in self.examples]
        oracle.save_batch(sequences, self.folder / "ids.safetensors")
        integers = {"loss_index": rows, "num_rows": self.num_rows(), "roles": [x[2] for x in self.examples],
                    "lengths": [len(ids) for ids in sequences]}
        tensors = {name: torch.tensor(values, dtype=torch.int32) for name, values in integers.items()}
        tensors |= {"input_ids": torch.cat(sequences).int(), "reference": self.reference_log_probs(),
                    "loss_weight": torch.tensor(self.loss_weights),
                    "group_weights": torch.tensor([x[3] for x in self.examples])}
        save_file(tensors | {name: column.float().contiguous() for name, column in self.columns.items()},
                  self.folder / "batch.safetensors")
        self.loss.backward()
        oracle.save_gradients(self.model, self.folder / "trl_gradients")


def mean(values):
    return sum(values) / len(values)


class Pairs(Groups):
    """Three pairs, each in a batch of its own, with weights."""

    def __init__(self, folder, texts, make_trainer):
        super().__init__(folder)
        trainer = make_trainer(self, Dataset.from_list(texts))
        for batch, weight in zip(trainer.get_train_dataloader(), PAIR_WEIGHTS, strict=True):
            self.loss = self.loss + weight * trainer.compute_loss(self.model, batch)
            chosen, rejected = self.answers(batch)
            self.add(*chosen, CHOSEN, weight, weight / (len(chosen[0]) - chosen[1]))
            self.add(*rejected, REJECTED, weight, 0.0)
        metrics = trainer._metrics["train"] if hasattr(trainer, "_metrics") else trainer._stored_metrics["train"]
        names = {"reward_chosen": "rewards/chosen", "reward_rejected": "rewards/rejected",
                 "reward_margin": "rewards/margins", "reward_accuracy": "rewards/accuracies"}
        self.statistics = {ours: mean(metrics[theirs]) for ours, theirs in names.items()}


class DpoPairs(Pairs):
    def __init__(self, folder, **options):
        args = arguments(DPOConfig, folder, per_device_train_batch_size=1, **options)
        super().__init__(folder, pair_texts(), lambda groups, data: DPOTrainer(
            model=groups.model, ref_model=copy.deepcopy(groups.reference), args=args, train_dataset=data,
            processing_class=tokenizer()))

    @staticmethod
    def answers(batch):
        for ids, mask, completion in zip(batch["input_ids"], batch["attention_mask"], batch["completion_mask"],
                                         strict=True):
            yield ids[mask.bool()], int((mask - completion).sum())


class PairsWithoutReference(Pairs):
    """CPOTrainer and ORPOTrainer have the same batches."""

    @staticmethod
    def answers(batch):
        for side in ("chosen", "rejected"):
            labels = batch[f"{side}_labels"][0]
            yield batch[f"{side}_input_ids"][0], int((labels == -100).sum())


class CpoPairs(PairsWithoutReference):
    def __init__(self, folder, **options):
        args = arguments(CPOConfig, folder, per_device_train_batch_size=1, **options)
        super().__init__(folder, pair_texts(), lambda groups, data: CPOTrainer(
            model=groups.model, args=args, train_dataset=data, processing_class=tokenizer()))


class OrpoPairs(PairsWithoutReference):
    """TRL's next-token term includes the prompt, ours does not. Prompts of one token have no label."""

    def __init__(self, folder, **options):
        args = arguments(ORPOConfig, folder, per_device_train_batch_size=1, **options)
        super().__init__(folder, pair_texts((1, 1, 1)), lambda groups, data: ORPOTrainer(
            model=groups.model, args=args, train_dataset=data, processing_class=tokenizer()))


class JudgedAnswers(Groups):
    """Four answers in one batch, whose divergence TRL estimates."""

    def __init__(self, folder, **options):
        super().__init__(folder)
        generator = torch.Generator().manual_seed(7)
        texts = [{"prompt": text(prompt, generator), "completion": " " + text(answer, generator), "label": label}
                 for prompt, answer, label in ((3, 4, True), (5, 2, False), (2, 7, False), (4, 3, True))]
        trainer = KTOTrainer(
            model=self.model, ref_model=copy.deepcopy(self.reference), processing_class=tokenizer(),
            train_dataset=Dataset.from_list(texts),
            args=arguments(KTOConfig, folder, per_device_train_batch_size=4, **options))
        (batch,) = trainer.get_train_dataloader()
        self.loss = trainer.compute_loss(self.model, batch)
        for ids, mask, completion, label in zip(batch["input_ids"], batch["attention_mask"],
                                                batch["completion_mask"], batch["label"], strict=True):
            self.add(ids[mask.bool()], int((mask - completion).sum()), DESIRABLE if label else UNDESIRABLE, 0.25, 0.0)
        metrics = trainer._metrics["train"]
        self.columns["kl"] = torch.tensor(metrics["kl"][0])
        self.statistics = {"reward_chosen": metrics["rewards/chosen"][0], "kto_divergence": metrics["kl"][0],
                           "reward_rejected": metrics["rewards/rejected"][0],
                           "log_prob_chosen": metrics["logps/chosen"][0],
                           "log_prob_rejected": metrics["logps/rejected"][0]}


def no_reward(completions, **_):
    return [0.0] * len(completions)


class Rollouts(Groups):
    """Three rollouts, each in a batch of its own. Columns are random; ratios are on both sides of the bounds."""

    PROMPTS, ANSWERS = (3, 1, 6), (5, 8, 2)

    def __init__(self, folder, beta=0.0, has_old=True, has_weights=False, **options):
        super().__init__(folder)
        generator = torch.Generator().manual_seed(9)
        trainer = GRPOTrainer(
            model=self.model, reward_funcs=no_reward, processing_class=tokenizer(),
            train_dataset=Dataset.from_list([{"prompt": "w1"}] * 4),
            args=arguments(GRPOConfig, folder, per_device_train_batch_size=2, num_generations=2, beta=0.0,
                           use_bias_correction_kl=False, **options))
        trainer.beta = beta  # set later: it would look for a reference model by name
        trainer.current_gradient_accumulation_steps = 1
        trainer.use_vllm, trainer.vllm_importance_sampling_correction = has_weights, has_weights
        num_tokens = sum(self.ANSWERS)
        columns = {"advantage": [], "old_log_prob": [], "weight": []}
        for prompt, answer in zip(self.PROMPTS, self.ANSWERS, strict=True):
            ids = torch.randint(len(SPECIAL), NUM_WORDS, (prompt + answer,), generator=generator)
            of_examples = options["loss_type"] == "grpo"
            self.add(ids, prompt, ROLLOUT, 1 / 3, 1 / 3 / answer if of_examples else 1 / num_tokens)
            with torch.no_grad():
                log_probs = log_probs_of(self.model, ids)[prompt - 1:]
                reference = log_probs_of(self.reference, ids)[prompt - 1:]
            advantage, noise, factor = torch.randn((3, answer), generator=generator)
            columns["advantage"].append(advantage)
            columns["old_log_prob"].append(log_probs + 0.3 * noise)
            columns["weight"].append(factor.abs())
            batch = {"prompt_ids": ids[:prompt], "completion_ids": ids[prompt:], "advantages": advantage,
                     "ref_per_token_logps": reference}
            if has_old:
                batch["old_per_token_logps"] = columns["old_log_prob"][-1]
            if has_weights:
                batch["importance_sampling_ratio"] = factor.abs()
            batch = {name: values.unsqueeze(0) for name, values in batch.items()}
            batch |= {"prompt_mask": torch.ones((1, prompt), dtype=torch.long),
                      "completion_mask": torch.ones((1, answer), dtype=torch.long),
                      "num_items_in_batch": torch.tensor(num_tokens)}
            loss = trainer._compute_loss(self.model, batch)
            self.loss = self.loss + (loss / 3 if of_examples else loss)
        used = {"advantage": True, "old_log_prob": has_old, "weight": has_weights}
        self.columns = {name: torch.cat(values) for name, values in columns.items() if used[name]}
        self.set_statistics(trainer._metrics["train"])

    def set_statistics(self, metrics):
        names = {"reference_divergence": "kl", "clipped_low": "clip_ratio/low_mean",
                 "clipped_high": "clip_ratio/high_mean"}
        weights = torch.tensor(self.ANSWERS) / sum(self.ANSWERS)
        self.statistics = {ours: (torch.tensor(metrics[theirs]) * weights).sum().item()
                           for ours, theirs in names.items() if theirs in metrics}
