#include "text/byte_trie.h"

#include <bit>

namespace mtl {

ByteTrie::ByteTrie() { grow(); }

ByteTrie::Entry& ByteTrie::slot(std::uint32_t key) {
  std::size_t at = home(key);
  while (entries_[at].node != 0 && entries_[at].key != key) at = (at + 1) & mask_;
  return entries_[at];
}

void ByteTrie::grow() {
  std::vector<Entry> old(entries_.empty() ? 16 : 2 * entries_.size());
  old.swap(entries_);
  mask_ = entries_.size() - 1;
  shift_ = 64 - std::countr_zero(entries_.size());
  for (const Entry& entry : old) {
    if (entry.node != 0) slot(entry.key) = entry;
  }
}

bool ByteTrie::add(std::string_view text, std::int32_t number) {
  std::uint32_t node = kRoot;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::uint32_t key = node << 8 | byte_of(text[i]);
    Entry* entry = &slot(key);
    if (entry->node == 0) {
      if (nodes_ == kMaxNodes) return false;
      if (2 * nodes_ > mask_) {
        grow();
        entry = &slot(key);
      }
      *entry = {.key = key, .node = nodes_++, .number = -1};
    }
    if (i + 1 == text.size()) entry->number = number;
    node = entry->node;
  }
  return true;
}

}  // namespace mtl
