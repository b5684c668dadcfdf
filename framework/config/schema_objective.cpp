// Keys of the section objective.
#include "framework/config/schema_sections.h"

namespace packtrain {

std::vector<Field> fields_of(ObjectiveSection& s) {
  return {
      choice("objective.kind", s.kind,
             {{"next_token", ObjectiveKind::kNextToken},
              {"dpo", ObjectiveKind::kDpo},
              {"ipo", ObjectiveKind::kIpo},
              {"orpo", ObjectiveKind::kOrpo},
              {"simpo", ObjectiveKind::kSimpo},
              {"cpo", ObjectiveKind::kCpo},
              {"kto", ObjectiveKind::kKto},
              {"policy", ObjectiveKind::kPolicy}})
          .means("The loss. `next_token`: cross entropy. `dpo`, `ipo`, `orpo`, `simpo`, `cpo`: "
                 "losses of pairs. `kto`: of judged answers. `policy`: policy gradients of "
                 "rollouts (docs/preferences.md)."),
      real("objective.beta", s.beta, {.low = 0})
          .means("Factor of log-ratios in the loss; of `orpo`, weight of its odds ratio; of "
                 "`policy`, weight of the divergence from the reference. Defaults: 0.1, of `simpo` "
                 "2, of `policy` 0."),
      real("objective.label_smoothing", s.label_smoothing, {.low = 0, .high = 0.5})
          .means("`dpo`, `cpo`: the probability that the order of a pair is wrong."),
      flag("objective.length_normalize", s.length_normalize)
          .means("`dpo`, `cpo`: log-probabilities of an answer are means over its tokens."),
      real("objective.target_margin", s.target_margin, {.low = 0})
          .means("`simpo`: the margin between the rewards of a pair, gamma."),
      real("objective.margin_scale", s.margin_scale, {.low = 0})
          .means("`dpo`: factor of the margin of each pair in the store, which is subtracted from "
                 "the difference of rewards."),
      real("objective.next_token_weight", s.next_token_weight, {.low = 0})
          .means("Weight of the next-token loss of the chosen answers, added to the loss of pairs. "
                 "Defaults: 1 of `orpo` and `cpo`, else 0."),
      real("objective.desirable_weight", s.desirable_weight, {.low = 0})
          .means("`kto`: weight of desirable answers."),
      real("objective.undesirable_weight", s.undesirable_weight, {.low = 0})
          .means("`kto`: weight of undesirable answers."),
      choice("objective.reference", s.reference,
             {{"auto", std::nullopt},
              {"base", ReferenceSource::kBase},
              {"log_probs", ReferenceSource::kLogProbs},
              {"model", ReferenceSource::kModel}})
          .means("Where the log-probabilities of the reference come from. `base`: the model under "
                 "the adapter. `log_probs`: the files of `packtrain score --log-probs` in the "
                 "folders of the stores. `model`: objective.reference_path. `auto`: `base` with an "
                 "adapter, else `log_probs`."),
      text("objective.reference_path", s.reference_path)
          .means(
              "`model`: a Hugging Face folder with the reference model, which is not trained. "
              "`log_probs`: the DIGEST of files log-probs-DIGEST.safetensors; empty: that of the "
              "weights that training begins with."),
      choice("objective.policy_loss", s.policy_loss,
             {{"clip", PolicyLoss::kClip}, {"cispo", PolicyLoss::kCispo}})
          .means("`policy`: how the ratio of probabilities is limited. `clip`: the smaller one of "
                 "the clipped and the unclipped term (PPO, GRPO, DAPO). `cispo`: a clipped "
                 "constant times the log-probability."),
      choice("objective.ratio", s.ratio,
             {{"token", RatioLevel::kToken}, {"example", RatioLevel::kExample}})
          .means("`policy`: what has one ratio of probabilities, a token or an example (GSPO)."),
      real("objective.clip_low", s.clip_low, {.low = 0, .high = 1})
          .means("`policy`: ratios below 1 minus this are clipped."),
      real("objective.clip_high", s.clip_high, {.low = 0})
          .means("`policy`: ratios above 1 plus this are clipped."),
  };
}

}  // namespace packtrain
