#include "framework/training/steps/rehearsal.h"

#include <algorithm>
#include <chrono>

#include "collators/collator.h"
#include "framework/support/logging.h"
#include "framework/training/steps/upload.h"
#include "models/ops/attention/cudnn.h"
#include "models/ops/attention/cudnn_buckets.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/ops/matmul/matmul.h"
#include "models/ops/matmul/token_bucket.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;
using What = SizeKey::What;

constexpr std::int64_t kMostTokens = std::int64_t{4} << 20;  // looked at: some 50 ms
constexpr std::size_t kMostRehearsals = 64;
constexpr double kMostSeconds = 15;
constexpr double kTimingInSteps = 0.01;  // of their time, of all ranks together

// The slowest rank's seconds since `begin`, on every rank.
double agreed_seconds(Clock::time_point begin, World& world) {
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  world.control().all_reduce(&seconds, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
  return seconds;
}

void run(const Rehearsal& rehearsal, Collator collate, const TokenStore& store, ShardedModel& model,
         const Device& device) {
  const PackedBatch packed = collate(store, rehearsal.pieces, LossNormalization{}, {}, {});
  std::vector<DeviceBatch> batches(rehearsal.accumulated ? 2 : 1);
  model.compute().run([&](StreamHandle) { std::ranges::fill(batches, upload(packed, device)); });
  // Where memory does not suffice, the step itself will tell: its batch can be laid otherwise.
  model.try_train(batches);
  model.compute().synchronize();
}

}  // namespace

std::set<SizeKey> size_keys(const PackedBatch& batch, bool accumulated,
                            const SizeOptions& options) {
  const auto num_rows = std::ssize(batch.input_ids);
  const auto num_supervised = std::ssize(batch.loss_index);
  const AttentionBucket attention =
      attention_bucket(std::ssize(batch.cu_seqlens) - 1, batch.max_seqlen, num_rows);
  std::set<SizeKey> keys = {{What::kRows, token_bucket(num_rows), accumulated},
                            {What::kSequences, attention.num_sequences},
                            {What::kLongest, attention.max_length}};
  if (num_supervised == 0) return keys;
  keys.insert({What::kSupervisedRows, token_bucket(num_supervised), accumulated});
  const HeadSize head{.num_rows = num_supervised,
                      .vocab_size = options.vocab_size,
                      .hidden_size = options.hidden_size,
                      .element_bytes = options.element_bytes,
                      .narrow_gradient = options.narrow_gradients && !accumulated};
  const std::int64_t chunk = plan_head_chunks(head, /*on_gpu=*/true).rows;
  if (chunk < num_supervised) {
    keys.insert({What::kHeadChunk, token_bucket(chunk), accumulated});
    const std::int64_t last = (num_supervised - 1) % chunk + 1;
    keys.insert({What::kLastHeadChunk, token_bucket(last), accumulated});
  }
  return keys;
}

RehearsalPlan plan_rehearsals(const Planner& planner, const TokenStore& store,
                              std::int64_t first_step, std::int64_t total_steps,
                              const SizeOptions& options) {
  RehearsalPlan plan;
  std::set<SizeKey> met;
  const Collator collate = find_collator(planner.options().strategy);
  std::int64_t num_tokens = 0;
  for (std::int64_t step = first_step; step < total_steps && num_tokens < kMostTokens; ++step) {
    if (planner.position(step).epoch != planner.position(first_step).epoch) break;
    const StepPlan step_plan = planner.plan(step);
    num_tokens += step_plan.num_tokens;
    const bool accumulated = options.gradients_in_place && step_plan.num_micro_batches() > 1;
    for (const auto& micro_batches : step_plan.ranks) {
      for (const MicroBatch& pieces : micro_batches) {
        const PackedBatch batch = collate(store, pieces, LossNormalization{}, {}, {});
        const std::size_t num_before = met.size();
        met.merge(size_keys(batch, accumulated, options));
        if (met.size() > num_before) {
          plan.rehearsals.push_back({pieces, std::ssize(batch.input_ids),
                                     std::ssize(batch.loss_index), std::ssize(batch.cu_seqlens) - 1,
                                     accumulated});
        }
        plan.most_rows = std::max<std::int64_t>(plan.most_rows, std::ssize(batch.input_ids));
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
  const std::size_t at_most = std::min(kMostRehearsals, plan.rehearsals.size());
  limit_matmul_timing(1);
  std::size_t done = 0;
  while (done < at_most && agreed_seconds(begin, world) < kMostSeconds) {
    run(plan.rehearsals[done++], collate, store, model, device);
  }
  limit_matmul_timing(kTimingInSteps / world.size());  // while one times, the others wait
  model.compute().take_waited();
  log_info(
      "before step 1: {} matrix products timed and {} attention plans built in {:.2f} s, by {} of "
      "the {} micro-batches that first ask for something",
      num_timed_matmuls() - products, num_cudnn_plans() - attention_plans,
      std::chrono::duration<double>(Clock::now() - begin).count(), done, plan.rehearsals.size());
  return done;
}

}  // namespace packtrain
