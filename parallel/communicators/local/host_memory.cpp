#include "parallel/communicators/local/host_memory.h"

#include <cstdlib>
#include <new>
#include <utility>

namespace packtrain {

CommunicatorMemory allocate_host_memory(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  if (bytes == 0) return {};
  std::shared_ptr<void> owner(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage),
                              std::free);
  if (!owner) throw std::bad_alloc();
  return {owner.get(), bytes, std::move(owner)};
}

}  // namespace packtrain
