// packtrain sweep: reads the runs of a sweep file and checks their configurations. Then it passes
// them to the Python tool that starts them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "framework/config/load.h"
#include "framework/config/sweep.h"
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
void check_runs(const Sweep& sweep) {
  for (const SweepRun& run : sweep.runs) {
    try {
      check_for_training(run.config);
      find_model(run.config);
    } catch (const Error& error) {
      throw Error(error.category(), fmt::format("run {}: {}", run.name, error.message()),
                  error.advice());
    }
  }
}

Json best_to_json(const SweepFile& file) {
  if (file.best_figure.empty()) return nullptr;
  return {
      {"figure", file.best_figure}, {"lowest", file.best_is_lowest}, {"where", file.best_where}};
}

Json to_json(const Sweep& sweep) {
  Json json = {{"program", std::filesystem::read_symlink("/proc/self/exe").string()},
               {"output", sweep.file.output},
               {"num_ranks", sweep.file.num_ranks},
               {"num_at_once", sweep.file.num_at_once},
               {"best", best_to_json(sweep.file)},
               {"columns", sweep.columns},
               {"baseline", Json::object()},
               {"runs", Json::array()}};
  for (const auto& [column, value] : sweep.baseline) json["baseline"][column] = value;
  for (const SweepRun& run : sweep.runs) {
    json["runs"].push_back({{"name", run.name},
                            {"hash", run.hash},
                            {"values", run.values},
                            {"folder", run.config.run.output},
                            {"config", dump_config(run.config)}});
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
  app.add_option("SWEEP", path, "sweep file (YAML)")->required();
  app.add_option("OVERRIDES", overrides,
                 "sweep.KEY=value, or section.key=value: of all runs, or, for a key of product, "
                 "its values");
  app.add_flag("--dry-run", dry_run, "list the runs and what is done of them");
  app.footer(
      "Examples (docs/operations.md, \"Sweeping\", has what a sweep file says):\n"
      "  packtrain sweep configs/sweeps/density.yaml --dry-run\n"
      "  packtrain sweep mine.yaml sweep.at_once=2 run.max_steps=50 batch.strategy=[balanced]");
  if (!parse_arguments(app, argc, argv)) return 0;
  refuse_mpirun();
  const Sweep sweep = load_sweep(path, overrides);
  check_runs(sweep);
  std::string file = hand_over(to_json(sweep).dump());
  std::string flag = "--dry-run";
  std::vector<char*> arguments = {file.data()};
  if (dry_run) arguments.push_back(flag.data());
  run_tool("sweep.py", arguments);
}

}  // namespace packtrain
