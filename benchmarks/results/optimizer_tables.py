"""Tables of benchmarks/results/optimizers.py: optimizers at equal tokens and time, sizes at equal computation."""

import statistics
from dataclasses import dataclass

from curves import Curve, first_reach, interpolate

Runs = dict[tuple[str, int], Curve]  # by recipe and seed

SHARES = (0.25, 0.5, 0.75, 1.0)
STEP_TOKENS = 262144
VOCABULARY, HEAD_DIM = 16384, 64
# 6 x parameters x tokens of a run of model-30m.yaml.
COMPUTATION = 6 * 30_417_408 * 763 * STEP_TOKENS


@dataclass(frozen=True)
class Size:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    key_value_heads: int
    learning_rate: float  # proportional to 1 / hidden, from 2e-3 of model-30m.yaml

    @property
    def num_parameters(self) -> int:
        attention = 2 * self.hidden * HEAD_DIM * (self.heads + self.key_value_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return VOCABULARY * self.hidden + self.layers * layer + self.hidden

    @property
    def settings(self) -> list[str]:
        keys = {"hidden_size": self.hidden, "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.key_value_heads, "head_dim": HEAD_DIM,
                "vocab_size": VOCABULARY, "model_type": "llama", "max_position_embeddings": 2048,
                "rms_norm_eps": "1.0e-5", "rope_theta": "10000.0", "tie_word_embeddings": "true"}
        num_steps = round(COMPUTATION / (6 * self.num_parameters * STEP_TOKENS))
        return ["model.config={" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}",
                f"optimizer.learning_rate={self.learning_rate}", f"run.max_steps={num_steps}"]


SIZES = {"8m": Size(256, 704, 5, 4, 2, 4e-3), "18m": Size(384, 1024, 7, 6, 3, 2.7e-3),
         "48m": Size(640, 1792, 8, 10, 5, 1.6e-3)}


def spread(values: list[float | None], digits: int = 4) -> str:
    """Mean and sample standard deviation over seeds."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return "not reached"
    mean = f"{statistics.mean(known):,.{digits}f}"
    return mean if len(known) == 1 else f"{mean} ± {statistics.stdev(known):,.{digits}f}"


def by_recipe(runs: Runs) -> dict[str, list[Curve]]:
    found: dict[str, list[Curve]] = {}
    for (recipe, _), curve in runs.items():
        found.setdefault(recipe, []).append(curve)
    return found


def mean_of(curves: list[Curve], name: str) -> float:
    return statistics.mean(getattr(curve, name) for curve in curves)


@dataclass(frozen=True)
class Comparison:
    recipes: dict[str, list[Curve]]
    tokens: float
    seconds: float  # of the fastest recipe
    goal: float | None  # the last loss of the best AdamW

    def row(self, recipe: str) -> str:
        curves = self.recipes[recipe]
        losses = [[interpolate(curve.by_tokens, share * self.tokens) for curve in curves] for share in SHARES]
        losses.append([interpolate(curve.by_time, min(self.seconds, curve.seconds)) for curve in curves])
        seconds, tokens = mean_of(curves, "seconds"), mean_of(curves, "num_tokens")
        reach = "" if self.goal is None else spread([first_reach(curve.by_step, self.goal) for curve in curves], 0)
        cells = [recipe, str(len(curves)), *map(spread, losses), f"{1000 * seconds / mean_of(curves, 'num_steps'):.1f}",
                 f"{tokens / seconds:,.0f}", reach]
        return table_row(cells)


def table_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def optimizers(runs: Runs) -> str:
    recipes = by_recipe(runs)
    fastest = min(recipes, key=lambda recipe: mean_of(recipes[recipe], "seconds"))
    adamw = [recipe for recipe in recipes if recipe.startswith("adamw")]
    base = min(adamw, key=lambda recipe: mean_of(recipes[recipe], "last"), default=None)
    seconds, tokens = mean_of(recipes[fastest], "seconds"), min(curve.num_tokens for curve in runs.values())
    comparison = Comparison(recipes, tokens, seconds, mean_of(recipes[base], "last") if base else None)
    heads = ["recipe", "seeds", *(f"{share:.0%}" for share in SHARES), f"after {seconds:.1f} s", "step, ms", "tokens/s",
             f"steps to the last loss of {base}"]
    lines = [f"Validation loss after parts of {tokens:,.0f} tokens, and after {seconds:.1f} s of training steps, when "
             f"{fastest} ends.", "", table_row(heads), "|---" * len(heads) + "|", *map(comparison.row, recipes)]
    lines += [f"{recipe}, seed {seed}: {curve.unclipped:.3f} of the elements unclipped in the later half"
              for (recipe, seed), curve in runs.items() if curve.unclipped is not None]
    return "\n".join(lines)


def sizes(runs: Runs) -> str:
    heads = ["size", "parameters", "tokens", "tokens a parameter", "steps", "validation loss", "tokens/s"]
    lines = [table_row(heads), "|---" * len(heads) + "|"]
    for name, curves in by_recipe(runs).items():
        num_parameters, tokens = SIZES[name].num_parameters, mean_of(curves, "num_tokens")
        lines.append(table_row([name, f"{num_parameters:,}", f"{tokens:,.0f}", f"{tokens / num_parameters:.1f}",
                                f"{curves[0].num_steps:,}", spread([curve.last for curve in curves]),
                                f"{tokens / mean_of(curves, 'seconds'):,.0f}"]))
    return "\n".join(lines)
