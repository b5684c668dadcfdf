// packtrain verify: runs as one process a rank under mpirun, or alone. It trains nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "framework/config/adapters.h"
#include "framework/config/load.h"
#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/precision_text.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "launch/cli/verify_data.h"
#include "training/verification/verification.h"

namespace packtrain {
namespace {

std::string to_json(const VerificationReport& report) {
  nlohmann::ordered_json json = {{"ok", report.failed_checks().empty()},
                                 {"strategy", report.strategy},
                                 {"precision", report.precision},
                                 {"num_ranks", report.num_ranks},
                                 {"num_steps", report.num_steps},
                                 {"num_examples", report.num_examples},
                                 {"num_micro_batches", report.num_micro_batches},
                                 {"checks", nlohmann::ordered_json::array()}};
  for (const CheckResult& check : report.checks) {
    nlohmann::ordered_json errors = nlohmann::ordered_json::object();
    for (const WorstError& error : check.errors) {
      errors[error.name] = {{"value", error.value}, {"where", error.where}};
    }
    json["checks"].push_back({{"name", check.name},
                              {"ok", check.passed()},
                              {"num_cases", check.num_cases},
                              {"errors", errors},
                              {"num_failures", check.num_failures},
                              {"failures", check.failures}});
  }
  return json.dump() + "\n";
}

std::string figures(const CheckResult& check) {
  if (check.num_cases == 0) return "nothing to compare";
  std::string text = fmt::format("{} {}", check.num_cases, check.case_name);
  for (const WorstError& error : check.errors) {
    text += fmt::format(", {} {:.1e}", error.name, error.value);
    if (error.value != 0 && !error.where.empty()) text += fmt::format(" ({})", error.where);
  }
  return text;
}

std::string to_text(const VerificationReport& report) {
  std::string text = fmt::format(
      "{} example{} in {} step{}, {} in {}, {} rank{} x {} micro-batch{}\n", report.num_examples,
      report.num_examples == 1 ? "" : "s", report.num_steps, report.num_steps == 1 ? "" : "s",
      report.strategy, report.precision, report.num_ranks, report.num_ranks == 1 ? "" : "s",
      report.num_micro_batches, report.num_micro_batches == 1 ? "" : "es");
  for (const CheckResult& check : report.checks) {
    text += fmt::format("{:<5} {:<39} {}\n", check.passed() ? "ok" : "FAIL", check.claim,
                        figures(check));
    for (const std::string& failure : check.failures) text += fmt::format("      {}\n", failure);
    const auto hidden = check.num_failures - static_cast<std::int64_t>(check.failures.size());
    if (hidden > 0) text += fmt::format("      and {} more\n", hidden);
  }
  return text;
}

void require_success(const VerificationReport& report, bool cross_example_attention) {
  const auto failed = report.failed_checks();
  if (failed.empty()) return;
  throw Error(
      ErrorCategory::kVerify,
      fmt::format("{} of {} checks failed: {}", failed.size(), report.checks.size(),
                  fmt::join(failed, ", ")),
      cross_example_attention
          ? "batch.cross_example_attention lets examples see each other: without it each is "
            "trained by itself."
          : "Do not train with this configuration on this machine before the cause is "
            "known: its loss is not that of the examples.");
}

}  // namespace

int run_verify(int argc, char** argv) {
  if (has_option(argc, argv, "--data")) return run_verify_data(argc, argv);
  return in_world([argc, argv](World& world) {
    CLI::App app(
        "Proves the first steps of a run right: packed = one by one, no example sees another, N "
        "ranks = 1. Ends with 74 when a check fails.",
        "packtrain verify");
    ConfigArguments arguments;
    VerificationOptions options;
    bool as_json = false;
    bool of_precision = false;
    arguments.add_to(app);
    app.add_flag("--json", as_json, "print one JSON object");
    app.add_option("--examples", options.num_examples,
                   "examples of a step (default 16, or 2 a rank)")
        ->check(positive_number());
    app.add_option("--steps", options.num_steps, "first steps to verify (default 1)")
        ->check(positive_number());
    app.add_flag("--precision-report", of_precision,
                 "check nothing: print the errors of loss and gradients in bf16 and in 8-bit "
                 "products against float32");
    app.footer(
        "Example:\n"
        "  launch/packtrain-run -n 2 verify my.yaml     with the ranks that will train\n"
        "  packtrain verify --data STORE                every byte of a store, by its digests");
    if (!parse_arguments(app, argc, argv)) return;
    const Config config = load_with_sources(arguments, &world);
    check_for_training(config);
    require_one_adapter(config, "`packtrain verify`");
    start_logging(world.rank(), world.size(), "");
    if (world.rank() == 0) warn_of_unread_keys(arguments);
    if (of_precision) {
      const PrecisionReport report = run_precision_report(config, world, options);
      if (world.rank() == 0)
        print_result(as_json ? precision_json(report) : precision_text(report));
      return;
    }
    const VerificationReport report = run_verification(config, world, options);
    if (world.rank() == 0) print_result(as_json ? to_json(report) : to_text(report));
    require_success(report, config.batch.cross_example_attention);
  });
}

}  // namespace packtrain
