#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "framework/core/units.h"
#include "launch/cli/plan_report.h"
#include "training/plan/shard_size.h"

namespace packtrain {
namespace {

constexpr double kBarWidth = 50;
constexpr std::size_t kMaxRanksShown = 16;

std::string bar(double share) {
  return std::string(static_cast<std::size_t>(std::lround(share * kBarWidth)), '#');
}

double gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0);
}

class Table {
 public:
  void row(const char* name, const std::string& value) {
    text_ += fmt::format("{:<28}{}\n", name, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string token_budget_text(const TokenBudget& budget) {
  if (!budget.limit) return fmt::format("{} a micro-batch, as given", budget.tokens);
  return fmt::format("{} a micro-batch, found for {:.2f} GiB a rank: {}", budget.tokens,
                     gib(budget.limit->bytes), budget.limit->basis);
}

std::string gradients_text(const MemoryForecast& memory) {
  if (memory.ranks.shard_size == 1) return "summed where they are written";
  return fmt::format("reduced {} (parallel.accumulate: {})",
                     memory.accumulate == "local" ? "once a step" : "after each micro-batch",
                     memory.accumulate);
}

std::string ranks_text(const MemoryForecast& memory) {
  const std::string groups = describe_groups(memory.hosts, memory.ranks.shard_size);
  return memory.hosts_basis.empty() ? groups : fmt::format("{} ({})", groups, memory.hosts_basis);
}

// "3.2 MiB: input 0.5, mlp.gate_up 1.0, ...", with the small ones (row statistics) as one sum.
std::string saved_activations_text(const std::vector<SavedActivation>& values) {
  std::int64_t total = 0;
  std::int64_t statistics = 0;
  std::string list;
  for (const SavedActivation& value : values) {
    total += value.bytes;
    const bool is_statistics = value.name.ends_with("statistics") || value.name.ends_with("_rms");
    if (is_statistics) {
      statistics += value.bytes;
    } else {
      list += fmt::format("{} {:.1f}, ", value.name, static_cast<double>(value.bytes) / kMebibyte);
    }
  }
  return fmt::format("{:.1f} MiB: {}statistics {:.1f}", static_cast<double>(total) / kMebibyte,
                     list, static_cast<double>(statistics) / kMebibyte);
}

// "0.00025 at step 1, 0.001 at step 4, 0.0001 at step 26"
std::string rates_text(const std::vector<std::pair<std::int64_t, double>>& rates) {
  std::string text;
  for (const auto& [step, rate] : rates) {
    text += fmt::format("{}{:.4g} at step {}", text.empty() ? "" : ", ", rate, step);
  }
  return text.empty() ? "none: the schedule does not fit the run" : text;
}

std::string figures(const PlanReport& report) {
  const PlanSummary& survey = report.survey;
  const SelectionCounts& losses = report.losses;
  Table table;
  table.row("strategy", traits_of(report.strategy).name);
  table.row("parameters", fmt::format("{}", report.memory.num_parameters));
  table.row("ranks", ranks_text(report.memory));
  table.row("steps", report.length);
  table.row("learning rate", rates_text(report.learning_rates));
  if (!report.evaluations.empty()) table.row("evaluations", report.evaluations);
  table.row("checkpoints", report.saves);
  table.row("examples an epoch", fmt::format("{}", survey.num_examples()));
  if (!report.group_kind.empty()) {
    table.row("groups an epoch",
              fmt::format("{} of the kind '{}', the largest has {} rows", survey.num_groups(),
                          report.group_kind, survey.max_rows_in_group()));
    table.row("shared prefixes", fmt::format("save {:.4f} of all rows", survey.saved_fraction()));
  }
  table.row("tokens an epoch",
            fmt::format("{}, {} with a label", survey.num_tokens(), survey.num_loss_tokens()));
  table.row("tokens a parameter", describe(report.training));
  table.row("left out",
            fmt::format("{}{} empty, {} without a label, {} cut before anything that is learned, "
                        "{} too long",
                        report.group_kind.empty() ? "" : "groups: ", losses.empty_examples,
                        losses.masked_examples, losses.truncated_to_empty_examples,
                        losses.dropped_examples));
  table.row("cut", fmt::format("{} truncated, {} split", losses.truncated_examples,
                               survey.split_examples()));
  table.row("micro-batches a step",
            fmt::format("{:.2f} a rank",
                        static_cast<double>(survey.num_micro_batches()) /
                            static_cast<double>(std::max<std::int64_t>(1, survey.num_steps()))));
  table.row("gradients", gradients_text(report.memory));
  table.row("token budget", token_budget_text(report.memory.budget));
  table.row("largest micro-batch", fmt::format("{} tokens", survey.max_tokens_in_micro_batch()));
  table.row("fill", fmt::format("{:.4f} of the token budget", survey.fill()));
  table.row("padding", fmt::format("{:.4f} of all rows", survey.padding_fraction()));
  table.row("token imbalance", fmt::format("{:.4f} slowest / mean rank", survey.token_imbalance()));
  table.row("utilisation",
            fmt::format("{:.4f}, bound {:.4f}", survey.cost_utilization(), survey.cost_bound()));
  if (report.step_time_s)
    table.row("step, estimated", fmt::format("{:.4f} s", *report.step_time_s));
  table.row("planned in", fmt::format("{:.2f} s", report.planning_time_s));
  return table.take();
}

// A store that is used once needs no further text.
std::string store_table(const PlanReport& report) {
  const std::vector<StoreShare>& stores = report.stores;
  if (stores.size() == 1 && stores.front().use.num_examples == stores.front().use.num_stored) {
    return "";
  }
  const auto percent = [](std::int64_t part, std::int64_t whole) {
    return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) /
                                       static_cast<double>(std::max<std::int64_t>(1, whole)));
  };
  std::string text =
      "\nstores of an epoch      examples          tokens  of examples    of tokens       wanted  "
      "mean repeats\n";
  for (const StoreShare& store : stores) {
    std::string wanted = "-";
    if (store.wanted_share) wanted = fmt::format("{:.2f} %", 100 * *store.wanted_share);
    if (store.wanted_probability) wanted = fmt::format("{:.2f} %", 100 * *store.wanted_probability);
    text += fmt::format("{:<20} {:>11} {:>15} {:>12} {:>12} {:>12} {:>13.4f}\n", store.use.folder,
                        store.num_examples, store.num_tokens,
                        percent(store.num_examples, report.survey.num_examples()),
                        percent(store.num_tokens, report.survey.num_tokens()), wanted,
                        store.mean_repeats());
  }
  return text;
}

std::string adapter_table(const PlanReport& report) {
  if (report.adapters.empty()) return "";
  std::string text = "\nadapters               examples           steps\n";
  for (const PlannedAdapter& adapter : report.adapters) {
    text += fmt::format("{:<20} {:>10} {:>15}\n", adapter.name, adapter.num_examples,
                        adapter.num_steps);
  }
  return text;
}

std::string memory_lines(const MemoryForecast& memory) {
  return fmt::format("memory of a rank\n{}\n  kept by a layer: {}\n{}{}memory of a host\n{}\n{}\n",
                     memory_table(memory.plan, memory.gpu_bytes),
                     saved_activations_text(memory.plan.layer_values), memory.fit,
                     memory.fit.empty() ? "" : "\n", host_memory_table(memory.host),
                     checkpoint_line(memory.checkpoints));
}

std::string length_histogram(const PlanReport& report) {
  std::int64_t most = 1;
  for (const LengthBin& bin : report.lengths) most = std::max(most, bin.num_examples);
  std::string text = "\nlengths in tokens    examples          tokens\n";
  for (const LengthBin& bin : report.lengths) {
    const std::string range = fmt::format("{}-{}", bin.min_tokens, bin.max_tokens);
    text += fmt::format("{:>17} {:>11} {:>15}  {}\n", range, bin.num_examples, bin.num_tokens,
                        bar(static_cast<double>(bin.num_examples) / static_cast<double>(most)));
  }
  return text;
}

std::string rank_loads(const StepPlan& plan, const StepLoads& loads) {
  std::string text = fmt::format(
      "\nstep {}: busy share of each rank, {} examples in {} micro-batch{}\n", plan.step,
      plan.num_examples, plan.num_micro_batches(), plan.num_micro_batches() == 1 ? "" : "es");
  const std::size_t num_shown = std::min(kMaxRanksShown, loads.ranks.size());
  for (std::size_t rank = 0; rank < num_shown; ++rank) {
    const double share = loads.step > 0 ? loads.ranks[rank] / loads.step : 1.0;
    text += fmt::format("{:>17} {:>11.4f}  {}\n", fmt::format("rank {}", rank), share, bar(share));
  }
  if (num_shown < loads.ranks.size()) {
    text += fmt::format("{:>17} {} more ranks\n", "and", loads.ranks.size() - num_shown);
  }
  return text;
}

// The reason why utilisation is below the target.
std::string bottleneck(const PlanReport& report) {
  const double reached = report.survey.cost_utilization();
  const double bound = report.survey.cost_bound();
  if (bound < kTargetUtilization) {
    return fmt::format(
        "At {} ranks no assignment of these batches passes {:.3f}: a step lasts as long as its "
        "longest example, and that is more than a rank's fair share.\n",
        report.memory.num_ranks, bound);
  }
  if (traits_of(report.strategy).has_plan_file) {
    return "The plan file decides who trains what: `packtrain plan --write-plan` with strategy "
           "balanced shows what another assignment reaches.\n";
  }
  if (traits_of(report.strategy).makes_own_steps) {
    return "Packs and rows stay whole: steps whose number of them is a multiple of the ranks keep "
           "all "
           "ranks busy, and the more a rank has, the closer are those that run at the same time.\n";
  }
  const auto& balanced = report.advice.balanced;
  if (balanced && balanced->reached > reached + 0.01) {
    return fmt::format(
        "Strategy {} does not balance ranks: batch.strategy={} would reach {:.3f} with the same "
        "examples in every step.\n",
        traits_of(report.strategy).name, traits_of(kDefaultStrategy).name, balanced->reached);
  }
  return "Whole examples in micro-batches of the token budget leave ranks unequal: raise "
         "batch.max_tokens_per_micro_batch if memory allows.\n";
}

std::string advice(const PlanReport& report) {
  const double reached = report.survey.cost_utilization();
  if (reached >= kTargetUtilization) {
    return fmt::format("\nRanks wait {:.1f} % of the time: nothing to gain from other batches.\n",
                       100 * (1 - reached));
  }
  std::string text = fmt::format("\nRanks wait {:.1f} % of the time. ", 100 * (1 - reached));
  text += bottleneck(report);
  if (const auto& batch = report.advice.batch_size) {
    text += fmt::format("{}={} would reach {:.3f} (other optimizer batches).\n",
                        report.batch_size_key, batch->value, batch->utilization.reached);
  }
  if (const auto& ranks = report.advice.num_ranks) {
    text += fmt::format("{} rank{} would reach {:.3f}.\n", ranks->value,
                        ranks->value == 1 ? "" : "s", ranks->utilization.reached);
  }
  const bool is_advised = report.adapters.empty();  // several have sizes of their own
  if (is_advised && !report.advice.batch_size && !report.advice.num_ranks) {
    text += fmt::format("No doubling of the batch size and no halving of the ranks reaches {}.\n",
                        kTargetUtilization);
  }
  return text;
}

std::string shortage_text(const MemoryForecast& memory) {
  if (memory.fit.empty()) {
    return memory_shortage(memory.plan, memory.ranks, memory.gpu_bytes, memory.remedies);
  }
  return memory.remedies.empty() ? "" : "What fits: " + memory.remedies;
}

}  // namespace

namespace {

std::string trained_text(const MemoryForecast& memory) {
  if (memory.num_trained == memory.num_parameters) return {};
  return fmt::format(", {} of them trained", memory.num_trained);
}

}  // namespace

std::string memory_to_text(const MemoryForecast& memory) {
  std::string text = fmt::format("{} parameters{}, ranks {}, token budget {}\n{}",
                                 memory.num_parameters, trained_text(memory), ranks_text(memory),
                                 token_budget_text(memory.budget), memory_lines(memory));
  if (const std::string shortage = shortage_text(memory); !shortage.empty())
    text += shortage + "\n";
  if (const HostShortage host = find_host_shortage(memory.host); !host.what.empty()) {
    text += fmt::format("{}\n  {}\n", host.what, host.advice);
  }
  return text;
}

std::string plan_to_text(const PlanReport& report) {
  std::string text = figures(report) + "\n" + memory_lines(report.memory) + store_table(report) +
                     adapter_table(report) + length_histogram(report);
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    text += rank_loads(report.steps[i], report.loads[i]);
  }
  return text + advice(report);
}

}  // namespace packtrain
