// Online bin packing in a window of the order. Each item goes into the fullest open pack that has
// space for it (best fit), or opens one. A pack is closed when it is full or `window` items old.
//
// Best fit does not sort, so a pack is as mixed as the order. The window bounds how far an item
// moves: an item added at position i leaves at a position e with abs(e - i) < window. A pack that
// opened at position o has only items of positions o .. o + window - 1. When it closes, at most o +
// window items have been added, so no item leaves `window` positions late. All packs that opened
// `window` positions before are closed, so no item leaves `window` positions early.
// Analysis of best fit: D. S. Johnson et al., "Worst-case performance bounds for simple
// one-dimensional packing algorithms", SIAM J. Comput. 3, 1974.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "samplers/batches/free_space_index.h"

namespace packtrain {

class PackWindow {
 public:
  using Item = std::uint32_t;

  // Makes packs of `capacity` tokens. Items are written to `packed`, pack after pack. `packed`
  // holds all items that are added. It may be the array that items are read from, because no item
  // is written before it is added. Memory: 24 bytes a position of the window, 0.3 MB, and 4 bytes a
  // pack.
  PackWindow(std::int64_t capacity, std::size_t window, std::span<Item> packed);

  // Adds an item of 1 .. capacity tokens. O(1).
  void add(Item item, std::int32_t tokens);
  // Closes all open packs. Returns the first position of each pack in `packed`.
  std::vector<std::uint32_t> finish();

 private:
  using Slot = std::uint32_t;  // position % window
  static constexpr Slot kNone = std::numeric_limits<Slot>::max();

  // A position of the window: the item added there, and the pack that it opened.
  struct Place {
    Item item = 0;
    Slot next_item = kNone;        // of the same pack; the last one's is the first (a ring)
    Slot last_item = kNone;        // of the pack; kNone: no pack opened here, or it is closed
    std::int32_t free_tokens = 0;  // free tokens of the pack
    Slot next_pack = kNone;        // with free space of the same class
    Slot previous_pack = kNone;
  };

  Slot take_pack(std::int32_t tokens);
  void link(Slot pack);
  void unlink(Slot pack);
  void close(Slot pack);

  std::int32_t capacity_;
  std::span<Item> packed_;
  std::vector<Place> places_;     // [window]
  std::vector<Slot> first_pack_;  // [size class]
  FreeSpaceIndex free_space_index_;
  Slot slot_ = 0;  // of the item added next
  std::uint32_t num_left_ = 0;
  std::vector<std::uint32_t> begins_;
};

}  // namespace packtrain
