// packtrain sweep: reads the runs of a sweep file and checks their configurations. Then it passes
// them to the Python tool that starts them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/config/load.h"
#include "framework/config/sweep.h"
#include "framework/config/sweep_together.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "launch/cli/arguments.h"
#include "launch/cli/program.h"
#include "launch/cli/tools.h"
#include "training/setup/model_source.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

// Errors that every run would have, reported before the first run.
void check_run(const std::string& name, const Config& config) {
  try {
    check_for_training(config);
    find_model(config);
  } catch (const Error& error) {
    throw Error(error.category(), fmt::format("run {}: {}", name, error.message()), error.advice());
  }
}

Json best_to_json(const SweepFile& file) {
  if (file.best_figure.empty()) return nullptr;
  return {
      {"figure", file.best_figure}, {"lowest", file.best_is_lowest}, {"where", file.best_where}};
}

Json run_to_json(const std::string& name, const std::string& hash, const Config& config) {
  return {{"name", name},
          {"hash", hash},
          {"folder", config.run.output},
          {"config", dump_config(config)}};
}

// What all runs have in common, and an empty list of runs.
Json sweep_to_json(const Sweep& sweep) {
  Json json = {{"program", std::filesystem::read_symlink("/proc/self/exe").string()},
               {"output", sweep.file.output},
               {"num_ranks", sweep.file.num_ranks},
               {"num_at_once", sweep.file.num_at_once},
               {"best", best_to_json(sweep.file)},
               {"columns", sweep.columns},
               {"baseline", Json::object()},
               {"runs", Json::array()}};
  for (const auto& [column, value] : sweep.baseline) json["baseline"][column] = value;
  return json;
}

Json to_json(const Sweep& sweep) {
  Json json = sweep_to_json(sweep);
  for (const SweepRun& run : sweep.runs) {
    check_run(run.name, run.config);
    Json one = run_to_json(run.name, run.hash, run.config);
    one["values"] = run.values;
    json["runs"].push_back(std::move(one));
  }
  return json;
}

// Each run has `adapters`: the runs of the sweep that it trains.
Json to_json_together(const Sweep& sweep) {
  const JoinedSweep joined = join_runs(sweep);
  Json json = sweep_to_json(sweep);
  json["separating_keys"] = joined.separating_keys;
  for (const JoinedRun& run : joined.runs) {
    check_run(run.name, run.config);
    Json one = run_to_json(run.name, run.hash, run.config);
    for (const SweepRun& member : run.members) {
      one["adapters"].push_back({{"name", member.config.adapter.name},
                                 {"hash", member.hash},
                                 {"values", member.values},
                                 {"config", dump_config(member.config)}});
    }
    json["runs"].push_back(std::move(one));
  }
  return json;
}

// A file in memory. Its name remains valid after the tool replaces this process.
std::string hand_over(const std::string& text) {
  const int descriptor = ::memfd_create("sweep", 0);
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  if (descriptor < 0) throw Error(ErrorCategory::kInternal, "memfd_create failed");
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kInternal);
  file.write(text);
  file.close();
  return path;
}

void refuse_mpirun() {
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) return;
  throw Error(ErrorCategory::kConfig, "sweep was started by mpirun, as one rank of several",
              "Start it by itself: it starts every run with sweep.ranks ranks.");
}

}  // namespace

int run_sweep(int argc, char** argv) {
  CLI::App app(
      "Trains every run of a sweep file, one job of packtrain-run each, and writes one table of "
      "results (CSV, Markdown, HTML) and the best run's configuration. Started again, it "
      "continues: "
      "runs whose configuration has not changed are not trained again.",
      "packtrain sweep");
  std::string path;
  std::vector<std::string> overrides;
  bool dry_run = false;
  bool together = false;
  app.add_option("SWEEP", path, "sweep file (YAML)")->required();
  app.add_option("OVERRIDES", overrides,
                 "sweep.KEY=value, or section.key=value: of all runs, or, for a key of product, "
                 "its values");
  app.add_flag("--dry-run", dry_run, "list the runs and what is done of them");
  app.add_flag("--together", together,
               "train runs that differ only in settings of their adapters as one run with several "
               "adapters");
  app.footer(
      "Examples (docs/operations.md, \"Sweeping\", has what a sweep file says):\n"
      "  packtrain sweep configs/sweeps/density.yaml --dry-run\n"
      "  packtrain sweep mine.yaml sweep.at_once=2 run.max_steps=50 batch.strategy=[balanced]\n"
      "  packtrain sweep mine.yaml --together optimizer.learning_rate=[1.0e-4,2.0e-4,4.0e-4]");
  if (!parse_arguments(app, argc, argv)) return 0;
  refuse_mpirun();
  const Sweep sweep = load_sweep(path, overrides);
  std::string file = hand_over((together ? to_json_together(sweep) : to_json(sweep)).dump());
  std::string flag = "--dry-run";
  std::vector<char*> arguments = {file.data()};
  if (dry_run) arguments.push_back(flag.data());
  run_tool("sweep.py", arguments);
}

}  // namespace packtrain
