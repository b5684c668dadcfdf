#include "models/estimates/memory_peaks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

#include "models/decoder/head_block.h"
#include "models/estimates/layer_tapes.h"
#include "models/estimates/tape_values.h"
#include "models/layers/expert_layers.h"

namespace packtrain {
namespace {

// The operator that adds the last branch to the residual stream.
const Operator& last_addition(const ShapeTape& tape) {
  const auto found =
      std::ranges::find_if(tape.operators().rbegin(), tape.operators().rend(),
                           [](const Operator& step) { return step.residual.has_value(); });
  return *found;
}

class PeakFinder {
 public:
  PeakFinder(const DecoderConfig& config, const RecomputePolicy& policy,
             const MicroBatchShape& size)
      : config_(config), policy_(policy), size_(size), tapes_(config, size) {
    for (const ShapeTape& tape : tapes_.all()) values_.emplace_back(tape, policy_);
    find_largest_buffers();
  }

  std::vector<MemoryPeak> list() const {
    std::vector<MemoryPeak> peaks = {loss()};
    for (const std::int64_t layer : layers()) {
      const TapeValues& values = values_[tapes_.number(layer)];
      for (auto step = values.peaks().rbegin(); step != values.peaks().rend(); ++step) {
        peaks.push_back(backward_peak(layer, *step));
      }
    }
    return peaks;
  }

 private:
  // Candidates for the peak: the last layers with and without experts. If the last layer has
  // fewer rows, also the one of its kind before it. Of equal layers the last one needs most.
  std::set<std::int64_t> layers() const {
    std::set<std::int64_t> found;
    const std::int64_t last = config_.num_layers - 1;
    const bool selects =
        !last_layer_needs_all_rows(config_) && size_.num_supervised_rows < size_.num_rows;
    for (const bool experts : {false, true}) {
      std::int64_t layer = last;
      while (layer >= 0 && config_.layer(layer).experts != experts) --layer;
      if (layer >= 0) found.insert(layer);
      if (layer != last || !selects) continue;
      do --layer;
      while (layer >= 0 && config_.layer(layer).experts != experts);
      if (layer >= 0) found.insert(layer);
    }
    return found;
  }

  // Saved from forward to backward by the first `count` layers.
  std::int64_t saved_bytes(std::int64_t count) const {
    std::int64_t total = 0;
    for (std::int64_t layer = 0; layer < count; ++layer) {
      total += values_[tapes_.number(layer)].saved_bytes();
    }
    return total;
  }

  BackwardMemory memory_of(const Operator& step) const { return step.memory(size_, policy_); }

  void find_largest_buffers() {
    for (const ShapeTape& tape : tapes_.all()) {
      for (const Operator& step : tape.operators()) {
        if (!step.memory) continue;
        for (const BackwardBuffer& buffer : memory_of(step).buffers) {
          std::int64_t& largest = largest_[buffer.name];
          if (buffer.largest_of_layers) largest = std::max(largest, buffer.bytes);
        }
      }
    }
  }

  void add_buffers(const BackwardMemory& memory, MemoryPeak& peak) const {
    for (const BackwardBuffer& buffer : memory.buffers) {
      const std::int64_t bytes = buffer.largest_of_layers ? largest_.at(buffer.name) : buffer.bytes;
      peak.in_use.push_back({buffer.name, bytes});
    }
  }

  MemoryPeak loss() const {
    const BackwardMemory memory = memory_of(head_shapes(config_, size_).operators().front());
    MemoryPeak peak{memory.peak, saved_bytes(config_.num_layers), {}};
    add_buffers(memory, peak);
    return peak;
  }

  MemoryPeak backward_peak(std::int64_t layer, std::size_t step) const {
    const ShapeTape& tape = tapes_.layer(layer);
    const TapeValues& values = values_[tapes_.number(layer)];
    const BackwardMemory memory = memory_of(tape.operators()[step]);
    const std::int64_t bytes = saved_bytes(layer) + values.bytes_in_backward_of(step);
    MemoryPeak peak{memory.peak, bytes, {residual_gradients(tape, step == values.peaks().front())}};
    add_buffers(memory, peak);
    return peak;
  }

  // Gradients of the residual stream in the backward of a branch. The caller holds the output's. A
  // branch that an operator of its own adds has another one of the same size.
  SavedActivation residual_gradients(const ShapeTape& tape, bool is_first_branch) const {
    const Operator& addition = last_addition(tape);
    const std::int64_t output = tape.shape(addition.outputs.front()).bytes();
    const Value input{0};
    if (is_first_branch) {
      return {"gradients of the residual stream", tape.shape(input).bytes() + output};
    }
    const bool is_apart =
        addition.multiply_adds.of_rows + addition.multiply_adds.of_frozen_rows == 0;
    return {"gradient of the layer's output", is_apart ? 2 * output : output};
  }

  const DecoderConfig& config_;
  RecomputePolicy policy_;
  MicroBatchShape size_;
  LayerTapes tapes_;
  std::vector<TapeValues> values_;               // by tape
  std::map<std::string, std::int64_t> largest_;  // of the buffers planned for all layers
};

}  // namespace

std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, const RecomputePolicy& policy,
                                     const MicroBatchShape& size) {
  return PeakFinder(config, policy, size).list();
}

}  // namespace packtrain
