// Settings of the section objective.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace packtrain {

// The loss that is trained. All but kNextToken read stores of groups.
enum class ObjectiveKind : std::uint8_t {
  kNextToken,
  kDpo,
  kIpo,
  kOrpo,
  kSimpo,
  kCpo,
  kKto,
  kPolicy
};

// Where the log-probabilities of the reference model come from.
enum class ReferenceSource : std::uint8_t {
  kBase,      // the model under the adapter
  kLogProbs,  // a file of `packtrain score --log-probs` in the folder of each store
  kModel      // a frozen second model
};

// How a policy-gradient loss limits the ratio of probabilities.
enum class PolicyLoss : std::uint8_t {
  kClip,   // the smaller one of the clipped and the unclipped term (PPO, GRPO, DAPO)
  kCispo,  // a clipped constant times the log-probability (CISPO)
};

// What has one ratio of probabilities: a token, or an example (GSPO).
enum class RatioLevel : std::uint8_t { kToken, kExample };

struct ObjectiveSection {
  ObjectiveKind kind = ObjectiveKind::kNextToken;
  std::optional<double> beta = std::nullopt;  // nothing: the default of the kind
  double label_smoothing = 0;                 // dpo, cpo: probability that a pair's order is wrong
  bool length_normalize = false;  // dpo, cpo: log-probabilities are means over an answer's tokens
  double target_margin = 0.5;     // simpo: gamma
  double margin_scale = 0;        // dpo: factor of a pair's margin, which is then subtracted
  // Weight of the next-token loss of the chosen answers. Nothing: the default of the kind.
  std::optional<double> next_token_weight = std::nullopt;
  double desirable_weight = 1;    // kto
  double undesirable_weight = 1;  // kto
  // Nothing: `base` with an adapter, else `log_probs`.
  std::optional<ReferenceSource> reference = std::nullopt;
  // kModel: folder of the second model. kLogProbs: digest of its files' model, or empty.
  std::string reference_path = {};
  PolicyLoss policy_loss = PolicyLoss::kClip;
  RatioLevel ratio = RatioLevel::kToken;
  double clip_low = 0.2;   // ratios below 1 - clip_low are clipped
  double clip_high = 0.2;  // ratios above 1 + clip_high are clipped
};

// The value in the section, or the default of its kind.
double resolved_beta(const ObjectiveSection& section);
double resolved_next_token_weight(const ObjectiveSection& section);

}  // namespace packtrain
