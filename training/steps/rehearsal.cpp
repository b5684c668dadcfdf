#include "training/steps/rehearsal.h"

#include <algorithm>
#include <chrono>

#include "collators/collator.h"
#include "framework/core/logging.h"
#include "models/ops/attention/cudnn/attention.h"
#include "models/ops/attention/cudnn/buckets.h"
#include "models/ops/linear_cross_entropy/linear_loss.h"
#include "models/ops/matmul/matmul.h"
#include "models/ops/matmul/token_bucket.h"
#include "samplers/loss_counter.h"
#include "samplers/statistics.h"
#include "training/steps/reference_pass.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;
using What = SizeKey::What;

constexpr std::int64_t kMaxTokens = std::int64_t{4} << 20;  // examined in total
constexpr std::size_t kMaxRanks = 64;                       // examined in a step
constexpr std::size_t kMaxRehearsals = 64;
constexpr double kMaxSeconds = 15;
constexpr double kTimingInSteps = 0.01;  // share of the steps' time, for all ranks together

// Seconds since `begin` on the slowest rank. Collective. The same on every rank.
double agreed_seconds(Clock::time_point begin, World& world) {
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  world.control().all_reduce(&seconds, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
  return seconds;
}

void run(const Rehearsal& rehearsal, Collator collate, const TokenStore& store, ShardedModel& model,
         const Device& device) {
  const PackedBatch packed = collate(store, rehearsal.pieces, LossNormalization{}, {}, {});
  std::vector<DeviceBatch> batches(rehearsal.accumulated ? 2 : 1);
  model.compute().run([&](StreamHandle) {
    std::ranges::fill(batches, upload(packed, device));
    set_no_reference(batches);
  });
  // Ignores out of memory here: the step itself handles it by another layout of the batch.
  model.try_train(batches);
  model.compute().synchronize();
}

// Sizes without supervised rows.
BatchSizes rows_of(const MicroBatch& pieces, Strategy strategy) {
  SequenceCounts counts;
  std::int64_t num_tokens = 0;
  for_each_segment(pieces, [&](std::span<const Piece>, const AttentionSegment& segment) {
    num_tokens += segment.rows.size();
    counts.add(segment);
  });
  BatchSizes sizes;
  sizes.num_sequences = counts.num_sequences();
  sizes.longest_sequence = counts.longest();
  if (traits_of(strategy).pads_to_longest) num_tokens = counts.num_sequences() * counts.longest();
  sizes.num_rows = num_rows(num_tokens, CollatorOptions{}.row_multiple);
  const std::int64_t num_pads = sizes.num_rows - num_tokens;
  if (num_pads > 0) {
    ++sizes.num_sequences;
    sizes.longest_sequence = std::max(sizes.longest_sequence, num_pads);
  }
  if (counts.has_prefixes()) sizes.num_keys = counts.num_keys() + num_pads;
  return sizes;
}

// A piece's last token has a label if the example continues after the piece.
std::int64_t num_labels(const Piece& piece, const TokenStore& store, const LossCounter& counter) {
  if (piece.is_prefix) return 0;
  const auto example = static_cast<std::size_t>(piece.example);
  const bool is_whole =
      piece.after_prefix || (piece.begin == 0 && piece.length == store.lengths()[example]);
  if (is_whole) return store.num_loss_tokens()[example];
  return counter.loss_tokens_between(piece.example, piece.begin + 1,
                                     piece.begin + piece.length + (piece.continues ? 1 : 0));
}

// Adds this micro-batch to the plan if it has new keys.
void look_at(const MicroBatch& pieces, const BatchSizes& sizes, bool accumulated,
             const SizeOptions& options, std::set<SizeKey>& met, RehearsalPlan& plan) {
  const std::size_t num_before = met.size();
  met.merge(size_keys(sizes, accumulated, options));
  if (met.size() > num_before) plan.rehearsals.push_back({pieces, sizes, accumulated});
}

}  // namespace

BatchSizes sizes_of(const PackedBatch& batch) {
  const SequenceCounts counts = batch.segments().counts();
  return {std::ssize(batch.input_ids), std::ssize(batch.loss_index), counts.num_sequences(),
          batch.max_seqlen, counts.has_prefixes() ? counts.num_keys() : 0};
}

BatchSizes sizes_of(const MicroBatch& pieces, Strategy strategy, const TokenStore& store) {
  const StoreLossCounter counter(store);
  BatchSizes sizes = rows_of(pieces, strategy);
  for (const Piece& piece : pieces) sizes.num_supervised_rows += num_labels(piece, store, counter);
  return sizes;
}

std::set<SizeKey> size_keys(const BatchSizes& batch, bool accumulated, const SizeOptions& options) {
  const std::int64_t num_supervised = batch.num_supervised_rows;
  const AttentionBucket attention =
      attention_bucket(batch.num_sequences, batch.longest_sequence, batch.num_rows);
  const bool has_prefixes = batch.num_keys > 0;
  std::set<SizeKey> keys = {{What::kRows, token_bucket(batch.num_rows), false, accumulated},
                            {What::kSequences, attention.num_sequences, has_prefixes},
                            {What::kLongest, attention.max_length, has_prefixes}};
  if (num_supervised == 0) return keys;
  keys.insert({What::kSupervisedRows, token_bucket(num_supervised), false, accumulated});
  const HeadSize head{.num_rows = num_supervised,
                      .vocab_size = options.vocab_size,
                      .hidden_size = options.hidden_size,
                      .element_bytes = options.element_bytes,
                      .narrow_gradient = options.narrow_gradients && !accumulated};
  const std::int64_t chunk = plan_head_chunks(head, /*on_gpu=*/true).rows;
  if (chunk < num_supervised) {
    keys.insert({What::kHeadChunk, token_bucket(chunk), false, accumulated});
    const std::int64_t last = (num_supervised - 1) % chunk + 1;
    keys.insert({What::kLastHeadChunk, token_bucket(last), false, accumulated});
  }
  return keys;
}

RehearsalPlan plan_rehearsals(const Planner& planner, const TokenStore& store,
                              std::int64_t first_step, std::int64_t total_steps,
                              const SizeOptions& options) {
  RehearsalPlan plan;
  std::set<SizeKey> met;
  const Strategy strategy = planner.options().strategy;
  std::int64_t num_tokens = 0;
  for (std::int64_t step = first_step; step < total_steps && num_tokens < kMaxTokens; ++step) {
    if (planner.position(step).epoch != planner.position(first_step).epoch) break;
    const StepPlan step_plan = planner.plan(step);
    const bool accumulated = options.sums_micro_batches && step_plan.num_micro_batches() > 1;
    const std::size_t stride = (step_plan.ranks.size() + kMaxRanks - 1) / kMaxRanks;
    const std::size_t first = static_cast<std::size_t>(step - first_step) % stride;
    for (std::size_t rank = 0; rank < step_plan.ranks.size(); ++rank) {
      const bool is_looked_at = rank % stride == first && num_tokens < kMaxTokens;
      for (const MicroBatch& pieces : step_plan.ranks[rank]) {
        const BatchSizes rows = rows_of(pieces, strategy);
        plan.largest_num_rows = std::max(plan.largest_num_rows, rows.num_rows);
        plan.largest_num_keys = std::max(plan.largest_num_keys, rows.num_keys);
        if (!is_looked_at) continue;
        const BatchSizes sizes = sizes_of(pieces, strategy, store);
        num_tokens += sizes.num_rows;
        look_at(pieces, sizes, accumulated, options, met, plan);
      }
    }
  }
  return plan;
}

std::size_t rehearse(const RehearsalPlan& plan, Strategy strategy, const TokenStore& store,
                     ShardedModel& model, const Device& device, World& world) {
  const auto begin = Clock::now();
  const std::int64_t products = num_timed_matmuls();
  const std::int64_t attention_plans = num_cudnn_plans();
  const Collator collate = find_collator(strategy);
  const std::size_t at_most = std::min(kMaxRehearsals, plan.rehearsals.size());
  model.operator_options().gemm_timing = limited_gemm_timing(1);
  std::size_t done = 0;
  while (done < at_most && agreed_seconds(begin, world) < kMaxSeconds) {
    run(plan.rehearsals[done++], collate, store, model, device);
  }
  // While one rank times, the others wait.
  model.operator_options().gemm_timing =
      limited_gemm_timing(kTimingInSteps / model.ranks().mesh().data_parallel_size());
  model.compute().take_waited();
  log_info(
      "before step 1: {} matrix products timed and {} attention plans built in {:.2f} s, by {} of "
      "the {} micro-batches that first ask for something",
      num_timed_matmuls() - products, num_cudnn_plans() - attention_plans,
      std::chrono::duration<double>(Clock::now() - begin).count(), done, plan.rehearsals.size());
  return done;
}

}  // namespace packtrain
