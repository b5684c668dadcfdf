// The energy of a run by its steps: a thread reads the counters while the run trains, and writes
// them into the run folder.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/energy_meter.h"
#include "parallel/communicators/world.h"
#include "training/comparison/interpolation.h"

namespace packtrain {

// The meter of this rank's part of a run: its GPU; on CPUs the packages of its host, for the first
// rank of each host.
struct RankMeter {
  std::unique_ptr<EnergyMeter> meter;  // null: it measures nothing
  bool is_measured = false;            // also where another rank measures for this one
};

// Nothing is measured unless it is for all ranks. Collective.
RankMeter make_rank_meter(const Config& config, World& world);

// Appends to FOLDER/energy-rank-N.jsonl from construction to destruction, several times a second. A
// resumed run appends to the lines of its earlier part. Without a measurement it writes nothing.
class EnergyLog {
 public:
  EnergyLog(const std::string& folder, int rank, RankMeter meter);
  ~EnergyLog();
  EnergyLog(const EnergyLog&) = delete;
  EnergyLog& operator=(const EnergyLog&) = delete;

 private:
  void record();
  void run();

  std::string folder_;
  std::string path_;
  RankMeter meter_;
  double last_joules_ = 0;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool is_stopped_ = false;
  std::thread thread_;
};

// Joules that all ranks had used when a step was done, ascending; the last one is of the whole run
// with its start and evaluations. Empty unless each rank has a file of only finite values.
std::vector<CurvePoint> read_energy(const std::string& folder, int num_ranks);

}  // namespace packtrain
