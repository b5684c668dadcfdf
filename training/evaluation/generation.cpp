#include "training/evaluation/generation.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collators/flattening.h"
#include "framework/core/random.h"
#include "framework/device/tensor_device.h"
#include "framework/device/tensor_memory.h"
#include "samplers/evaluation_plan.h"
#include "training/evaluation/collective_evaluation.h"
#include "training/evaluation/next_token.h"
#include "training/evaluation/smaller_batches.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

constexpr std::int64_t kNone = -1;

// Spreads the texts over the ranks, one micro-batch each if they are small. A pack takes any text
// while it is below the mean, so there are at most as many packs as ranks.
StepPlan plan_texts(const GenerationBatch& texts, const GenerationOptions& options, int num_ranks) {
  const ExampleCounts lengths = texts.lengths();
  const auto all = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const std::int64_t spread = all / num_ranks + std::ranges::max(lengths);
  const std::int64_t most = std::min(spread, options.max_tokens_per_micro_batch);
  return plan_evaluation(lengths, texts.num_loss_tokens(), most, num_ranks, nullptr,
                         options.lowered);
}

class Writer {
 public:
  Writer(const std::vector<Prompt>& prompts, const GenerationOptions& options, std::int64_t step,
         Device& device, World& world, const ProcessMesh& mesh)
      : prompts_(prompts),
        options_(options),
        step_(step),
        device_(device),
        world_(world),
        texts_(prompts, options.samples.max_new_tokens, options.vocab_size),
        plan_(plan_texts(texts_, options, mesh.data_parallel_size())),
        own_(plan_.ranks[mesh.data_parallel_rank()]),
        joint_(world, options.stop_requested),
        ended_(prompts.size()) {}

  std::vector<std::vector<std::int32_t>> write(ShardedModel& model) {
    while (!all_ranks_have_ended()) add_tokens(model);
    return gathered();
  }
  const StepPlan& plan() const { return plan_; }

 private:
  const std::vector<MicroBatch>& own() const { return own_; }

  bool all_ranks_have_ended() {
    std::int64_t ended = 1;
    for (const MicroBatch& texts : own()) {
      for (const Piece& text : texts) ended = std::min<std::int64_t>(ended, ended_[text.example]);
    }
    world_.control().all_reduce(&ended, 1, DataType::kInt64, ReduceOp::kMin, nullptr);
    return ended != 0;
  }

  void add_tokens(ShardedModel& model) {
    std::vector<PackedBatch> packed;
    std::vector<DeviceBatch> batches;
    joint_.evaluate(model, own().size(), [&] {
      for (const MicroBatch& texts : own()) packed.push_back(flatten(texts_, texts, {}));
      model.compute().run([&](StreamHandle) {
        for (const PackedBatch& batch : packed) batches.push_back(on_device(batch));
      });
      return std::span<DeviceBatch>(batches);
    });
    std::vector<at::Tensor> logits;
    joint_.attempt([&] {
      model.compute().run([&](StreamHandle) {
        for (const DeviceBatch& batch : batches) logits.push_back(batch.row_logits.to(at::kCPU));
      });
    });
    model.compute().take_waited();  // belongs to no step
    joint_.agree();
    for (std::size_t m = 0; m < packed.size(); ++m) append(packed[m].pieces, logits[m]);
  }

  DeviceBatch on_device(const PackedBatch& packed) {
    DeviceBatch batch = upload(packed, device_);
    const at::Tensor& weights = batch.loss_weight;
    set_adapter(options_.adapter, batch);
    batch.without_adapter = options_.without_adapter;
    batch.row_logits = at::empty({weights.size(0), options_.vocab_size}, weights.options());
    batch.only_row_losses = true;  // an objective of groups has no loss of these rows
    return batch;
  }

  // logits: float32 [texts, V], a row for each text's next token.
  void append(std::span<const Piece> texts, const at::Tensor& logits) {
    const auto vocab_size = static_cast<std::size_t>(options_.vocab_size);
    for (std::size_t row = 0; row < texts.size(); ++row) {
      const std::int64_t text = texts[row].example;
      if (ended_[text] != 0) continue;
      const std::span of_row(logits.const_data_ptr<float>() + row * vocab_size, vocab_size);
      const std::int32_t id = choose_token(
          of_row, {options_.samples.temperature, options_.samples.top_p}, uniform(text));
      texts_.append(text, id);
      ended_[text] = prompts_[text].ends.contains(id) || texts_.is_full(text) ? 1 : 0;
    }
  }

  double uniform(std::int64_t text) const {
    const CounterRandom random(options_.seed, "samples", static_cast<std::uint64_t>(text));
    return random.uniform(static_cast<std::uint64_t>(step_ * options_.samples.max_new_tokens +
                                                     texts_.num_added(text)));
  }

  std::vector<std::vector<std::int32_t>> gathered() {
    const std::int64_t width = options_.samples.max_new_tokens;
    std::vector<std::int64_t> added(prompts_.size() * static_cast<std::size_t>(width), kNone);
    for (const MicroBatch& texts : own()) {
      for (const Piece& text : texts) {
        const auto ids = texts_.input_ids(text.example).subspan(prompts_[text.example].ids.size());
        std::ranges::copy(ids.first(texts_.num_added(text.example)),
                          added.begin() + text.example * width);
      }
    }
    world_.control().all_reduce(added.data(), added.size(), DataType::kInt64, ReduceOp::kMax,
                                nullptr);
    std::vector<std::vector<std::int32_t>> continuations(prompts_.size());
    for (std::size_t text = 0; text < prompts_.size(); ++text) {
      const auto* begin = added.data() + text * static_cast<std::size_t>(width);
      continuations[text].assign(begin, std::find(begin, begin + width, kNone));
    }
    return continuations;
  }

  const std::vector<Prompt>& prompts_;
  const GenerationOptions& options_;
  std::int64_t step_;
  Device& device_;
  World& world_;
  GenerationBatch texts_;
  StepPlan plan_;
  const std::vector<MicroBatch>& own_;  // of this rank
  CollectiveEvaluation joint_;
  std::vector<std::int64_t> ended_;  // by text: 1, or 0
};

}  // namespace

std::vector<std::vector<std::int32_t>> generate_continuations(const std::vector<Prompt>& prompts,
                                                              const GenerationOptions& options,
                                                              std::int64_t step,
                                                              ShardedModel& model, Device& device,
                                                              World& world) {
  if (prompts.empty()) return {};
  GenerationOptions laid_out = options;
  for (;;) {
    Writer writer(prompts, laid_out, step, device, world, model.ranks().mesh());
    try {
      return writer.write(model);
    } catch (const EvaluationOutOfMemory& error) {
      laid_out.lowered = smaller_budget(writer.plan(), laid_out.max_tokens_per_micro_batch);
      if (laid_out.lowered == 0) throw does_not_fit("samples", error);
    }
    release_unused_tensor_memory(device);
  }
}

}  // namespace packtrain
