// Bin packing online, in a window of the order: each item goes into the fullest open pack that has
// room for it (best fit), or opens one; a pack is closed when it is full or `window` items old.
//
// Best fit never sorts, so a pack is as mixed as the order is, and the window bounds how far an
// item moves: an item added at place i leaves at a place e with |e - i| < window. For a pack that
// opened at place o has items of places o .. o + window - 1 only. When it closes, at most
// o + window items have been added, so none leaves `window` places late; and all packs that opened
// `window` places before have been closed, so none leaves `window` places early.
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

  // Packs of `capacity` tokens. Items leave, pack after pack, into `packed`, which needs room for
  // all that are added; it may be where they are read from, since none leaves before it is added.
  // Memory: 24 bytes a place of the window, 0.3 MB, and 4 bytes a pack.
  PackWindow(std::int64_t capacity, std::size_t window, std::span<Item> packed);

  // An item of 1 .. capacity tokens. O(1).
  void add(Item item, std::int32_t tokens);
  // Closes what is open. Returns where in `packed` each pack begins.
  std::vector<std::uint32_t> finish();

 private:
  using Slot = std::uint32_t;  // place % window
  static constexpr Slot kNone = std::numeric_limits<Slot>::max();

  // A place of the window: the item added there, and the pack that it opened.
  struct Place {
    Item item = 0;
    Slot next_item = kNone;  // of the same pack; the last one's is the first: a ring
    Slot last_item = kNone;  // of the pack; kNone: none opened here, or it is closed
    std::int32_t room = 0;   // left in the pack, in tokens
    Slot next_pack = kNone;  // with room of the same class
    Slot previous_pack = kNone;
  };

  Slot take_pack(std::int32_t tokens);
  void link(Slot pack);
  void unlink(Slot pack);
  void close(Slot pack);

  std::int32_t capacity_;
  std::span<Item> packed_;
  std::vector<Place> places_;     // [window]
  std::vector<Slot> first_pack_;  // [room class]
  FreeSpaceIndex rooms_;
  Slot slot_ = 0;  // of the item added next
  std::uint32_t num_left_ = 0;
  std::vector<std::uint32_t> begins_;
};

}  // namespace packtrain
