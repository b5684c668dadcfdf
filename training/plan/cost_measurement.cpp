#include "training/plan/cost_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "collators/flattening.h"
#include "framework/core/clock.h"
#include "framework/core/logging.h"
#include "training/plan/cost_fit.h"
#include "training/steps/reference_pass.h"
#include "training/steps/upload.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMaxMeasuredSteps = 8;  // steps that the examples are taken from
constexpr double kMinRepeats = 2;              // one repeat would show nothing about noise
constexpr double kMaxRepeats = 5;
constexpr double kMinAllowedS = 2.0;
constexpr double kShareOfRun = 0.01;

// The unit of attention, or a group. Joined pieces belong to the sequence of the piece they are
// joined to.
struct Sequence {
  std::vector<Piece> pieces;
  std::int64_t num_tokens = 0;
};

void add_sequences(const MicroBatch& micro_batch, std::vector<Sequence>& sequences) {
  for_each_unit(micro_batch, [&](std::span<const Piece> pieces) {
    std::int64_t num_tokens = 0;
    for (const Piece& piece : pieces) num_tokens += piece.length;
    sequences.push_back({{pieces.begin(), pieces.end()}, num_tokens});
  });
}

// The first sequences that together fit into `max_tokens`, at least one.
MicroBatch first_sequences(std::span<const Sequence> sequences, std::int64_t max_tokens) {
  MicroBatch taken;
  std::int64_t tokens = 0;
  for (const Sequence& sequence : sequences) {
    tokens += sequence.num_tokens;
    if (!taken.empty() && tokens > max_tokens) break;
    taken.insert(taken.end(), sequence.pieces.begin(), sequence.pieces.end());
  }
  return taken;
}

// A micro-batch ready to run, with the quantities that its time is fitted to.
struct Work {
  PackedBatch packed;
  DeviceBatch batch;
  double num_rows = 0;  // computed rows, including pads of the row multiple
  double squares = 0;   // AttentionSpan's
};

Work make_work(const MicroBatch& pieces, const TokenStore& store, ShardedModel& model,
               const Device& device, const AttentionSpan& span) {
  Work work;
  work.packed = flatten(store, pieces, LossNormalization{});
  model.compute().run([&](StreamHandle) {
    work.batch = upload(work.packed, device);
    set_no_reference({&work.batch, 1});
  });
  work.num_rows = static_cast<double>(work.packed.input_ids.size());
  for_each_segment(pieces, [&](std::span<const Piece>, const AttentionSegment& segment) {
    work.squares += span.squares(segment);
  });
  return work;
}

// This rank's own time, without waits for communication.
double time_of(Work& work, ShardedModel& model) {
  Stream& compute = model.compute();
  compute.synchronize();
  compute.take_waited();
  const auto begin = Clock::now();
  model.train({&work.batch, 1});
  compute.synchronize();
  return std::max(1e-9, seconds_since(begin) - compute.take_waited().total_s());
}

std::vector<double> time_all(std::span<Work> works, ShardedModel& model) {
  std::vector<double> seconds;
  for (Work& work : works) seconds.push_back(time_of(work, model));
  return seconds;
}

// Number of repeats that the time limit allows. `pass_s`: time of the warm-up. The same on every
// rank.
int affordable_repeats(double pass_s, std::int64_t remaining_steps, std::size_t num_works,
                       World& world) {
  world.control().all_reduce(&pass_s, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
  const double run_s =
      static_cast<double>(remaining_steps) * pass_s / static_cast<double>(num_works);
  const double allowed_s = std::max(kMinAllowedS, kShareOfRun * run_s);
  return static_cast<int>(std::clamp(allowed_s / pass_s - 1.0, kMinRepeats, kMaxRepeats));
}

void log_cost(const MeasuredCost& measured, std::span<const TimedWork> works, double noise,
              int num_repeats, double took_s) {
  const CostModel& cost = measured.cost;
  const auto [slowest, fastest] = std::ranges::minmax_element(measured.speeds);
  log_info(
      "measured cost: {:.3g} s a token + {:.3g} s a squared token + {:.3g} s a micro-batch, within "
      "{:.1f} %; speeds {:.3f} (rank {}) to {:.3f} (rank {}), noise {:.1f} %; {} micro-batches "
      "{} times in {:.2f} s",
      cost.linear, cost.quadratic, cost.constant, 100 * fit_error(cost, works), *slowest,
      slowest - measured.speeds.begin(), *fastest, fastest - measured.speeds.begin(), 100 * noise,
      works.size(), num_repeats + 1, took_s);
}

}  // namespace

std::vector<MicroBatch> sample_micro_batches(const RunPlan& plan, std::int64_t first_step) {
  std::vector<Sequence> sequences;
  std::int64_t step_tokens = 0;
  std::int64_t num_ranks = 1;
  const std::int64_t end = std::min(first_step + kMaxMeasuredSteps, plan.total_steps());
  for (std::int64_t step = first_step; step < end; ++step) {
    const StepPlan step_plan = plan.planner().plan(step);
    num_ranks = std::ssize(step_plan.ranks);
    step_tokens = std::max(step_tokens, step_plan.num_tokens);
    for (const auto& micro_batches : step_plan.ranks) {
      for (const MicroBatch& micro_batch : micro_batches) add_sequences(micro_batch, sequences);
    }
  }
  const std::int64_t full =
      std::min(step_tokens / num_ranks + 1, plan.layout().max_tokens_per_micro_batch);
  std::ranges::stable_sort(sequences, std::ranges::greater{}, &Sequence::num_tokens);
  const std::vector<Sequence> ascending(sequences.rbegin(), sequences.rend());
  std::vector<Sequence> mixed;
  for (std::size_t i = 0; i < sequences.size() / 2; ++i) {
    mixed.push_back(ascending[i]);
    mixed.push_back(sequences[i]);
  }
  return {first_sequences(sequences, full), first_sequences(ascending, full),
          first_sequences(sequences, full / 2), first_sequences(ascending, full / 2),
          first_sequences(mixed.empty() ? sequences : mixed, full * 3 / 4)};
}

MeasuredCost measure_cost(const RunPlan& plan, const TokenStore& store, std::int64_t first_step,
                          ShardedModel& model, const Device& device, World& world) {
  const auto begin = Clock::now();
  const AttentionSpan span = plan.layout().cost.span;
  std::vector<Work> works;
  for (const MicroBatch& pieces : sample_micro_batches(plan, first_step)) {
    works.push_back(make_work(pieces, store, model, device, span));
  }
  const auto warm_up = Clock::now();
  time_all(works, model);
  const int num_repeats = affordable_repeats(seconds_since(warm_up),
                                             plan.total_steps() - first_step, works.size(), world);
  std::vector<double> mine;
  for (int repeat = 0; repeat < num_repeats; ++repeat) {
    const std::vector<double> seconds = time_all(works, model);
    mine.insert(mine.end(), seconds.begin(), seconds.end());
  }
  const int num_ranks = model.ranks().mesh().data_parallel_size();
  std::vector<double> all(mine.size() * static_cast<std::size_t>(num_ranks));
  world.control().all_gather(mine.data(), all.data(), mine.size(), DataType::kFloat64, nullptr);
  const Timings timings(num_ranks, num_repeats, static_cast<int>(works.size()), std::move(all));
  const std::vector<double> mean_seconds = timings.mean_seconds();
  std::vector<TimedWork> timed;
  for (std::size_t w = 0; w < works.size(); ++w) {
    timed.push_back({works[w].num_rows, works[w].squares, mean_seconds[w]});
  }
  MeasuredCost measured{fit_cost(timed), timings.speeds()};
  measured.cost.span = span;
  log_cost(measured, timed, timings.noise(), num_repeats, seconds_since(begin));
  return measured;
}

}  // namespace packtrain
