#include "training/evaluation/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"
#include "training/evaluation/collective_evaluation.h"

namespace packtrain {
namespace {

std::string sample_line(std::int64_t step, const Prompt& prompt,
                        const std::vector<std::int32_t>& continuation,
                        const std::vector<std::int32_t>* without_adapter) {
  const auto has_ended = [&](const std::vector<std::int32_t>& ids) {
    return !ids.empty() && prompt.ends.contains(ids.back());
  };
  nlohmann::ordered_json line = {{"step", step}};
  if (!prompt.set.empty()) line["set"] = prompt.set;
  line["store"] = prompt.store;
  line["example"] = prompt.example;
  line["prompt"] = prompt.ids;
  line["continuation"] = continuation;
  line["ended"] = has_ended(continuation);
  if (without_adapter != nullptr) {
    line["without_adapter"] = *without_adapter;
    line["without_adapter_ended"] = has_ended(*without_adapter);
  }
  line["reference"] = prompt.reference;
  if (!prompt.rejected.empty()) line["rejected"] = prompt.rejected;
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

Samples::Continuations Samples::generate(ShardedModel& model, std::int64_t step,
                                         const GenerationOptions& options) {
  Continuations all;
  for (auto begin = prompts_.begin(); begin != prompts_.end();) {
    const std::size_t adapter = begin->adapter;
    const auto end = std::find_if(begin, prompts_.end(),
                                  [&](const Prompt& prompt) { return prompt.adapter != adapter; });
    GenerationOptions own = options;
    own.adapter.number = adapter;
    std::ranges::move(generate_continuations({begin, end}, own, step, model, device_, world_),
                      std::back_inserter(all));
    begin = end;
  }
  return all;
}

// The model under the adapter never changes, so its likeliest tokens are the same at each step.
void Samples::write_without_adapter(ShardedModel& model, std::int64_t step) {
  if (!without_adapter_.empty() && options_.samples.temperature == 0) return;
  GenerationOptions options = options_;
  options.without_adapter = true;
  without_adapter_ = generate(model, step, options);
}

void Samples::write(ShardedModel& model, std::int64_t step) {
  const Continuations continuations = generate(model, step, options_);
  if (options_.samples.without_adapter) write_without_adapter(model, step);
  static const std::function<bool()>
      kNeverStop;  // a stop request must not cause the same lines to be written twice
  CollectiveEvaluation joint(world_, kNeverStop);
  joint.attempt([&] {
    if (file_ == nullptr) return;
    std::string lines;
    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      if (i > 0) lines += '\n';
      lines += sample_line(step, prompts_[i], continuations[i],
                           options_.samples.without_adapter ? &without_adapter_[i] : nullptr);
    }
    file_->append(lines);
  });
  joint.agree();
}

}  // namespace packtrain
