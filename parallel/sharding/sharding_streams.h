#pragma once

#include <memory>
#include <vector>

#include "framework/device/device.h"

namespace packtrain {

// The streams and events of a schedule's actions.
struct ShardingStreams {
  std::shared_ptr<Stream> compute;  // may be that of another model
  std::unique_ptr<Stream> gather;
  std::unique_ptr<Stream> reduce;
  std::vector<std::unique_ptr<Event>> events;  // by SlotTable's numbers
};

}  // namespace packtrain
