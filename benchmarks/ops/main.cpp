// Times operators on a GPU: operator_benchmark --help.
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/guarded_main.h"
#include "benchmarks/ops/op_benchmark.h"
#include "benchmarks/ops/timer.h"
#include "framework/device/device.h"

namespace packtrain {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  std::string filter;
  bool as_json = false;
  bool list = false;
};

OpBenchmarks all_benchmarks() {
  OpBenchmarks benchmarks;
  add_norms(benchmarks);
  add_activations(benchmarks);
  add_experts(benchmarks);
  add_positions(benchmarks);
  add_embeddings(benchmarks);
  add_encodings(benchmarks);
  add_optimizers(benchmarks);
  add_matrices(benchmarks);
  add_attentions(benchmarks);
  add_delta_rules(benchmarks);
  add_state_space_models(benchmarks);
  add_linears(benchmarks);
  add_fp8(benchmarks);
  add_fp8_blocks(benchmarks);
  add_fp8_experts(benchmarks);
  add_heads(benchmarks);
  return benchmarks;
}

Json measure(Timer& timer, const OpBenchmark& benchmark, double copy_bandwidth) {
  std::vector<MakeCall> operators = {benchmark.make};
  if (benchmark.make_reference) operators.push_back(benchmark.make_reference);
  const std::vector<Timing> timings = timer.time(operators, benchmark.bytes);
  const double seconds = timings[0].median_us * 1e-6;
  Json row = {{"operator", benchmark.name},
              {"shape", benchmark.shape},
              {"us", timings[0].median_us},
              {"spread", timings[0].spread}};
  if (benchmark.bytes > 0) {
    row["gb"] = benchmark.bytes / 1e9;
    row["tb_per_s"] = benchmark.bytes / seconds / 1e12;
    row["of_copy"] = benchmark.bytes / seconds / copy_bandwidth;
  }
  if (benchmark.flops > 0) row["tflops"] = benchmark.flops / seconds / 1e12;
  if (benchmark.make_reference) {
    row["yardstick"] = benchmark.reference;
    row["yardstick_us"] = timings[1].median_us;
    row["of_yardstick"] = timings[1].median_us / timings[0].median_us;
  }
  return row;
}

std::string table_head(const Json& head) {
  return fmt::format(
      "{}, copy of 1 GiB: {:.2f} TB/s read and written\n\n"
      "| operator | shape | us | +- % | GB moved | TB/s | of copy | TFLOP/s | against | us | speed "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      head["device"].get<std::string>(), head["copy_tb_per_s"].get<double>());
}

std::string table_row(const Json& row) {
  const auto cell = [&](const char* key, const char* format, double factor = 1.0) {
    return row.contains(key) ? fmt::format(fmt::runtime(format), row[key].get<double>() * factor)
                             : std::string();
  };
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                     row["operator"].get<std::string>(), row["shape"].get<std::string>(),
                     cell("us", "{:.1f}"), cell("spread", "{:.1f}", 100), cell("gb", "{:.3f}"),
                     cell("tb_per_s", "{:.2f}"), cell("of_copy", "{:.2f}"),
                     cell("tflops", "{:.0f}"), row.value("yardstick", std::string()),
                     cell("yardstick_us", "{:.1f}"), cell("of_yardstick", "{:.3f}"));
}

void run(const Arguments& arguments) {
  if (arguments.list) {
    for (const OpBenchmark& benchmark : all_benchmarks()) {
      fmt::print("{}, {}\n", benchmark.name, benchmark.shape);
    }
    return;
  }
  const at::NoGradGuard no_grad;
  const auto device = make_cuda_device(0, {});
  Timer timer;
  const double copy_bandwidth = timer.copy_bandwidth();
  const Json head = {{"device", device->name()}, {"copy_tb_per_s", copy_bandwidth / 1e12}};
  fmt::print("{}", arguments.as_json ? head.dump() + "\n" : table_head(head));
  for (const OpBenchmark& benchmark : all_benchmarks()) {
    if (benchmark.name.find(arguments.filter) == std::string::npos) continue;
    const Json row = measure(timer, benchmark, copy_bandwidth);
    fmt::print("{}", arguments.as_json ? row.dump() + "\n" : table_row(row));
    std::fflush(stdout);
  }
}

int run_program(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Times operators on the first GPU beside the copy bandwidth.");
  app.add_option("--filter", arguments.filter, "only operators whose name has this in it");
  app.add_flag("--json", arguments.as_json, "one JSON object an operator instead of a table");
  app.add_flag("--list", arguments.list, "print names and shapes, time nothing");
  CLI11_PARSE(app, argc, argv);
  run(arguments);
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  return packtrain::guarded_main("operator_benchmark", packtrain::run_program, argc, argv);
}
