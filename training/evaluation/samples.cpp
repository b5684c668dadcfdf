#include "training/evaluation/samples.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"
#include "training/evaluation/collective_evaluation.h"

namespace packtrain {
namespace {

std::string sample_line(std::int64_t step, const Prompt& prompt,
                        const std::vector<std::int32_t>& continuation) {
  const bool ended = !continuation.empty() && prompt.ends.contains(continuation.back());
  nlohmann::ordered_json line = {{"step", step}};
  if (!prompt.set.empty()) line["set"] = prompt.set;
  line["store"] = prompt.store;
  line["example"] = prompt.example;
  line["prompt"] = prompt.ids;
  line["continuation"] = continuation;
  line["ended"] = ended;
  line["reference"] = prompt.reference;
  return line.dump();
}

}  // namespace

Samples::Samples(std::vector<Prompt> prompts, const GenerationOptions& options,
                 const std::string& run_folder, std::int64_t first_step, Device& device,
                 World& world)
    : prompts_(std::move(prompts)), options_(options), device_(device), world_(world) {
  if (prompts_.empty()) {
    throw Error(ErrorCategory::kConfig,
                fmt::format("samples.steps is set, but no example has a beginning to continue: "
                            "one with a label, and no longer than {} tokens with {} new ones",
                            options.max_tokens_per_micro_batch, options.samples.max_new_tokens),
                "Lower samples.max_new_tokens, raise batch.max_tokens_per_micro_batch, or set "
                "samples.steps to 0.");
  }
  if (world.rank() == 0) {
    file_ = std::make_unique<MetricsFile>(run_folder + "/samples.jsonl", first_step);
  }
}

void Samples::write(ShardedModel& model, std::int64_t step) {
  const auto continuations =
      generate_continuations(prompts_, options_, step, model, device_, world_);
  static const std::function<bool()>
      kNeverStop;  // a stop request must not cause the same lines to be written twice
  CollectiveEvaluation joint(world_, kNeverStop);
  joint.attempt([&] {
    if (file_ == nullptr) return;
    std::string lines;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (i > 0) lines += '\n';
      lines += sample_line(step, prompts_[i], continuations[i]);
    }
    file_->append(lines);
  });
  joint.agree();
}

}  // namespace packtrain
