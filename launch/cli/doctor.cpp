// packtrain doctor: checks the machines of a job before it starts. Runs as one process a rank under
// mpirun, or alone.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "framework/core/logging.h"
#include "launch/cli/arguments.h"
#include "launch/cli/in_world.h"
#include "launch/cli/output.h"
#include "launch/cli/program.h"
#include "launch/cli/sources.h"
#include "launch/doctor/host_copies.h"
#include "launch/doctor/judgement.h"
#include "launch/doctor/machine.h"
#include "launch/doctor/probe_watch.h"
#include "launch/doctor/probes.h"
#include "launch/doctor/speeds.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

struct DoctorArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  std::string injected;
  double limit_s = 0;
  bool as_json = false;

  void add_to(CLI::App& app) {
    app.add_option("CONFIG", config_path,
                   "configuration: its folders, stores, metrics and backend are looked at");
    app.add_option("OVERRIDES", overrides, "section.key=value, over the file, in order");
    app.add_flag("--json", as_json, "print one JSON object, with what every rank found");
    app.add_option("--limit", limit_s,
                   "seconds until what hangs is ended (default 60, and 1 more for every 20 ranks)")
        ->check(positive_number());
    app.add_option("--inject", injected,
                   "for trying it out: disk, products, clock or folder of that rank "
                   "are made bad")
        ->type_name("KIND:RANK");
    app.footer(
        fmt::format("Example:\n"
                    "  launch/packtrain-run -n 8 doctor my.yaml\n"
                    "Exit codes: 0 all is well; {} something is slow; 69 something is "
                    "broken; 72 something hangs.",
                    kSlowExitCode));
  }

  // Without a file: the configuration of a run that writes to this folder.
  Config read_config(World& world) const {
    if (!config_path.empty()) {
      ConfigArguments named = {.path = config_path, .overrides = overrides};
      return load_with_sources(named, &world);
    }
    Config config;
    config.run.output = ".";
    return config;
  }
};

// The facts of all ranks, on rank 0.
std::vector<Facts> examine(const Config& config, const DoctorArguments& arguments, World& world) {
  const InjectedFault trouble = arguments.injected.empty()
                                    ? InjectedFault{}
                                    : parse_injected_fault(arguments.injected, world.size());
  ProbeWatch watch(world, arguments.limit_s > 0 ? arguments.limit_s : probe_limit_s(world.size()));
  Facts facts = {{"rank", world.rank()}, {"host", world.host()}};
  const auto look = [&watch](const char* check, const auto& probe) {
    watch.begin(check);
    probe();
  };
  RunDevice device;
  look("the device", [&] { device = choose_device(config, world); });
  if (device.device->kind() == DeviceKind::kCuda) {
    look("nvidia-smi", [&] { find_gpu(device.device->index(), device.device->name(), facts); });
  }
  look("matrix products", [&] { probe_products(device, trouble, world, facts); });
  look("collectives", [&] { probe_collectives(device, world, facts); });
  look("copies between host and GPU", [&] { probe_host_copies(device, world, facts); });
  look("versions", [&] {
    find_versions(fmt::format("packtrain {} ({} CUDA)", PACKTRAIN_VERSION, PACKTRAIN_CUDA_BUILT),
                  facts);
  });
  look("the disk", [&] { probe_disk(config.run.output, trouble, world, facts); });
  look("the shared folder", [&] { probe_shared_folder(config.run.output, trouble, world, facts); });
  look("token stores", [&] { probe_stores(config, facts); });
  look("clocks", [&] { probe_clock(trouble, world, facts); });
  look("ports", [&] { probe_port(config.metrics, world, facts); });
  look("limits", [&] { find_limits(facts); });
  watch.begin("telling rank 0 what was found");
  std::vector<Facts> all;
  for (const std::string& text : gather_texts(facts.dump(), 0, world.control())) {
    all.push_back(Facts::parse(text));
  }
  return all;
}

}  // namespace

int run_doctor(int argc, char** argv) {
  int verdict = 0;
  const int failure = in_world([&](World& world) {
    CLI::App app(
        "Looks at the machines of a job before it starts: versions, GPUs, matrix products, "
        "collectives, copies, disk, shared folder, stores, clocks, ports and limits, a line each: "
        "OK, SLOW "
        "(naming who) or BROKEN, and what to do.",
        "packtrain doctor");
    DoctorArguments arguments;
    arguments.add_to(app);
    if (!parse_arguments(app, argc, argv)) return;
    start_logging(world.rank(), world.size(), "");
    const Config config = arguments.read_config(world);
    const std::vector<Facts> facts = examine(config, arguments, world);
    if (world.rank() == 0) {
      const std::vector<Finding> findings = judge(facts);
      verdict = exit_code_of(findings);
      print_result(arguments.as_json ? findings_to_json(findings, facts)
                                     : findings_to_text(findings));
    }
    world.control().broadcast(&verdict, sizeof verdict, 0, nullptr);
  });
  return failure != 0 ? failure : verdict;
}

}  // namespace packtrain
