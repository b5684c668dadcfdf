// Starts the update of a part: its checks, and its ranges as pieces of kernels' arguments.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "framework/core/error.h"
#include "training/optimizers/optimizer.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

// Adds the ranges to `arguments`, and calls `launch` when no more fit, and at the end. `decay_of`
// returns 1 - lr wd of a group. Throws Error(kInternal) when the ranges do not cover [0, numel).
template <typename Arguments, typename DecayOf, typename Launch>
void launch_pieces(const char* name, Arguments& arguments, std::span<const ShardRange> ranges,
                   std::int64_t numel, const DecayOf& decay_of, const Launch& launch) {
  const auto fail = [&](std::int64_t at) {
    throw Error(ErrorCategory::kInternal, std::string(name) +
                                              ": ranges are not end to end at element " +
                                              std::to_string(at) + " of " + std::to_string(numel));
  };
  for (const ShardRange& range : ranges) {
    const std::int64_t end = range.begin + range.numel;
    if (range.begin != arguments.end() || end > numel) fail(range.begin);
    const UpdatePiece piece{end, range.first_element - range.begin, decay_of(range.group),
                            range.amax};
    UpdatePiece* const last =
        arguments.num_pieces == 0 ? nullptr : &arguments.pieces[arguments.num_pieces - 1];
    if (last != nullptr && piece.continues(*last)) {
      last->end = end;
      continue;
    }
    if (arguments.num_pieces == kMaxUpdatePieces) {
      launch(arguments);
      arguments.begin = arguments.end();
      arguments.num_pieces = 0;
    }
    arguments.pieces[arguments.num_pieces++] = piece;
  }
  if (arguments.end() != numel) fail(arguments.end());
  if (arguments.end() > arguments.begin) launch(arguments);
}

// Calls `update(piece, begin, end)` for at most 4,096 elements of one piece at a time, on several
// threads.
template <typename Arguments, typename Update>
void for_each_cpu_range(const Arguments& arguments, const Update& update) {
  constexpr std::int64_t kGrain = 4096;  // the master is then cached for the weight's pass
  std::int64_t first = arguments.begin;
  for (int p = 0; p < arguments.num_pieces; ++p) {
    const UpdatePiece& piece = arguments.pieces[p];
    at::parallel_for(first, piece.end, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; i += kGrain) {
        update(piece, i, std::min(i + kGrain, end));
      }
    });
    first = piece.end;
  }
}

// Runs a launch of launch_pieces(): on_gpu(arguments, device index), or on_cpu() as above unless
// the step is skipped.
template <typename Arguments, typename OnGpu, typename OnCpu>
void run_launch(const Arguments& arguments, const at::Device& device, const OnGpu& on_gpu,
                const OnCpu& on_cpu) {
  if (device.is_cuda()) return on_gpu(arguments, device.index());
  if (*arguments.skip != 0) return;
  for_each_cpu_range(arguments, [&](const UpdatePiece& piece, std::int64_t begin,
                                    std::int64_t end) { on_cpu(arguments, piece, begin, end); });
}

}  // namespace packtrain
