#include "models/estimates/memory_peaks.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

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
  PeakFinder(const DecoderConfig& config, const LayerPolicies& policies,
             const MicroBatchShape& size)
      : config_(config), policies_(policies), size_(size), tapes_(config, size) {
    for (const ShapeTape& tape : tapes_.all()) {
      const bool has_copies = config.altup.exists();
      values_.push_back({TapeValues(tape, policies.rest, has_copies),
                         TapeValues(tape, policies.first, has_copies)});
    }
    find_largest_buffers();
  }

  std::vector<MemoryPeak> list() const {
    std::vector<MemoryPeak> peaks = {loss()};
    for (const std::int64_t layer : layers()) {
      const TapeValues& values = values_of(layer);
      for (auto step = values.peaks().rbegin(); step != values.peaks().rend(); ++step) {
        peaks.push_back(backward_peak(layer, *step));
      }
    }
    return peaks;
  }

 private:
  bool is_first(std::int64_t layer) const { return layer < policies_.num_first; }

  const TapeValues& values_of(std::int64_t layer) const {
    const BothValues& values = values_[tapes_.number(layer)];
    return is_first(layer) ? values.first : values.rest;
  }

  // Layers with the same parts and the same policy are of one kind.
  struct Kind {
    bool experts;
    bool delta_net;
    bool short_conv;
    bool mamba2;
    bool parallel_mamba2;
    bool no_mixer;
    bool no_mlp;
    bool first;
    std::int64_t head_dim;
    std::int64_t intermediate_size;
    bool cuts_gates;
    bool expands;
    auto operator<=>(const Kind&) const = default;
  };

  Kind kind_of(std::int64_t layer) const {
    const LayerPattern pattern = config_.layer(layer);
    return {pattern.experts,
            pattern.delta_net,
            pattern.short_conv,
            pattern.mamba2,
            pattern.parallel_mamba2,
            pattern.no_mixer,
            pattern.no_mlp,
            is_first(layer),
            pattern.head_dim,
            pattern.intermediate_size,
            pattern.gate_sparsity > 0,
            layer == 0 && config_.altup.exists()};
  }

  // The last layer up to `layer` of a kind, or -1.
  std::int64_t last_of_kind(std::int64_t layer, const Kind& kind) const {
    while (layer >= 0 && kind_of(layer) != kind) --layer;
    return layer;
  }

  // Candidates for the peak: the last layer of each kind. If the last layer has fewer rows, also
  // the one of its kind before it. Of equal layers the last one needs most.
  std::set<std::int64_t> layers() const {
    std::set<std::int64_t> found;
    const std::int64_t last = config_.num_layers - 1;
    const bool selects =
        !last_layer_needs_all_rows(config_) && size_.num_supervised_rows < size_.num_rows;
    std::set<Kind> seen;
    for (std::int64_t layer = last; layer >= 0; --layer) {
      const Kind kind = kind_of(layer);
      if (!seen.insert(kind).second) continue;
      found.insert(layer);
      if (layer == last && selects) found.insert(last_of_kind(last - 1, kind));
    }
    found.erase(-1);
    return found;
  }

  std::int64_t input_bytes(std::int64_t layer) const {
    return tapes_.layer(layer).shape(Value{0}).bytes();
  }

  // Saved from forward to backward by the first `count` layers. On the device alone: `num_inputs`
  // of their inputs at most.
  std::int64_t saved_bytes(std::int64_t count, std::int64_t num_inputs) const {
    std::int64_t total = 0;
    for (std::int64_t layer = 0; layer < count; ++layer) {
      total += values_of(layer).saved_bytes();
      if (policies_.inputs_on_host && layer + num_inputs < count) total -= input_bytes(layer);
    }
    return total;
  }

  void find_largest_buffers() {
    std::set<std::pair<std::size_t, bool>> seen;  // tapes and policies
    for (std::int64_t layer = 0; layer < config_.num_layers; ++layer) {
      if (!seen.emplace(tapes_.number(layer), is_first(layer)).second) continue;
      for (const Operator& step : tapes_.layer(layer).operators()) {
        if (!step.memory) continue;
        for (const BackwardBuffer& buffer : step.memory(size_, policies_.of(layer)).buffers) {
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
    const BackwardMemory memory =
        head_shapes(config_, size_).operators().front().memory(size_, policies_.rest);
    MemoryPeak peak{memory.peak, saved_bytes(config_.num_layers, kInputsOnDevice), {}};
    peak.kept += shared_row_bytes(config_, size_);
    add_buffers(memory, peak);
    return peak;
  }

  MemoryPeak backward_peak(std::int64_t layer, std::size_t step) const {
    const ShapeTape& tape = tapes_.layer(layer);
    const TapeValues& values = values_of(layer);
    const BackwardMemory memory = tape.operators()[step].memory(size_, policies_.of(layer));
    const std::int64_t bytes =
        saved_bytes(layer, kInputsOnDevice - 1) + values.bytes_in_backward_of(step);
    // A layer with one branch has the gradients of a last one.
    const bool is_first_branch =
        step == values.peaks().front() && config_.layer(layer).has_both_branches();
    MemoryPeak peak{memory.peak, bytes, {residual_gradients(tape, is_first_branch)}};
    if (const std::int64_t shared = shared_row_bytes(config_, size_); shared > 0) {
      peak.kept += shared;
      peak.in_use.push_back({"gradients of rows that layers share", shared});
    }
    add_buffers(memory, peak);
    return peak;
  }

  // Gradients of the residual stream in the backward of a branch. The caller holds the output's. A
  // branch that an operator of its own adds has another one of the stream's size.
  SavedActivation residual_gradients(const ShapeTape& tape, bool is_first_branch) const {
    const Operator& addition = last_addition(tape);
    const std::int64_t output = tape.shape(addition.outputs.front()).bytes();
    const Value input{0};
    if (is_first_branch) {
      return {"gradients of the residual stream", tape.shape(input).bytes() + output};
    }
    const bool is_apart =
        addition.multiply_adds.of_rows + addition.multiply_adds.of_frozen_rows == 0;
    // The last layer with copies of the hidden state returns their mean.
    const std::int64_t of_caller = tape.shape(tape.operators().back().outputs.front()).bytes();
    return {"gradient of the layer's output", is_apart ? of_caller + output : output};
  }

  const DecoderConfig& config_;
  // A tape has these for either policy.
  struct BothValues {
    TapeValues rest;
    TapeValues first;
  };

  LayerPolicies policies_;
  MicroBatchShape size_;
  LayerTapes tapes_;
  std::vector<BothValues> values_;               // by tape
  std::map<std::string, std::int64_t> largest_;  // of the buffers planned for all layers
};

}  // namespace

std::vector<MemoryPeak> memory_peaks(const DecoderConfig& config, const LayerPolicies& policies,
                                     const MicroBatchShape& size) {
  return PeakFinder(config, policies, size).list();
}

}  // namespace packtrain
