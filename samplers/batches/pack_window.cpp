#include "samplers/batches/pack_window.h"

#include <utility>

namespace packtrain {

PackWindow::PackWindow(std::int64_t capacity, std::size_t window, std::span<Item> packed)
    : capacity_(static_cast<std::int32_t>(capacity)),
      packed_(packed),
      places_(window),
      first_pack_(FreeSpaceIndex::kNumClasses, kNone),
      free_space_index_(capacity) {}

void PackWindow::add(Item item, std::int32_t tokens) {
  Place& place = places_[slot_];
  if (place.last_item != kNone) {  // opened `window` items ago
    unlink(slot_);
    close(slot_);
  }
  place.item = item;
  const Slot pack = take_pack(tokens);
  Place& opening = places_[pack];
  if (opening.last_item == kNone) {
    place.next_item = slot_;
  } else {
    place.next_item = std::exchange(places_[opening.last_item].next_item, slot_);
  }
  opening.last_item = slot_;
  opening.free_tokens -= tokens;
  if (opening.free_tokens == 0) {
    close(pack);
  } else {
    link(pack);
  }
  if (++slot_ == places_.size()) slot_ = 0;
}

// Removes the fullest pack with space from the lists and returns it, or a new pack.
PackWindow::Slot PackWindow::take_pack(std::int32_t tokens) {
  const std::size_t free_space_class = free_space_index_.find(tokens);
  if (free_space_class == FreeSpaceIndex::kNone) {
    places_[slot_].free_tokens = capacity_;
    return slot_;
  }
  const Slot pack = first_pack_[free_space_class];
  unlink(pack);
  return pack;
}

void PackWindow::link(Slot pack) {
  const std::size_t free_space_class = free_space_index_.class_of(places_[pack].free_tokens);
  const Slot next = std::exchange(first_pack_[free_space_class], pack);
  places_[pack].previous_pack = kNone;
  places_[pack].next_pack = next;
  if (next == kNone) {
    free_space_index_.insert(free_space_class);
  } else {
    places_[next].previous_pack = pack;
  }
}

void PackWindow::unlink(Slot pack) {
  const Place& place = places_[pack];
  if (place.next_pack != kNone) places_[place.next_pack].previous_pack = place.previous_pack;
  if (place.previous_pack != kNone) {
    places_[place.previous_pack].next_pack = place.next_pack;
    return;
  }
  const std::size_t free_space_class = free_space_index_.class_of(place.free_tokens);
  first_pack_[free_space_class] = place.next_pack;
  if (place.next_pack == kNone) free_space_index_.erase(free_space_class);
}

void PackWindow::close(Slot pack) {
  begins_.push_back(num_left_);
  const Slot last = std::exchange(places_[pack].last_item, kNone);
  Slot item = last;
  do {
    item = places_[item].next_item;
    packed_[num_left_++] = places_[item].item;
  } while (item != last);
}

std::vector<std::uint32_t> PackWindow::finish() {
  for (std::size_t i = 0; i < places_.size(); ++i) {  // in the order in which packs opened
    if (places_[slot_].last_item != kNone) close(slot_);
    if (++slot_ == places_.size()) slot_ = 0;
  }
  return std::move(begins_);
}

}  // namespace packtrain
