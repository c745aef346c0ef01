// Tensors of PyTorch's distributed checkpoints, read to be written again with changes.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "formats/dcp_folder.h"
#include "formats/dcp_writer.h"

namespace mtl::test {

inline std::vector<std::byte> elements_of(const DcpFolder& from, const std::string& key, const DcpBox& box) {
  const DcpFolder::OpenBox open = from.open_box(key, *from.find(key), box);
  std::vector<std::byte> elements(open.tensor->count() * bits_of(open.tensor->dtype) / 8);
  read_elements(*open.tensor, 0, elements);
  return elements;
}

/// A tensor of a folder, to be written again.
struct DcpEntry {
  std::string key;
  StoredDType dtype = StoredDType::f32;
  std::vector<std::int64_t> shape;
  struct Box {
    std::vector<std::int64_t> offset, size;
    std::vector<std::byte> elements;
  };
  std::vector<Box> boxes;
};

inline std::vector<DcpEntry> dcp_entries_of(const DcpFolder& from) {
  std::vector<DcpEntry> out;
  for (const auto& [key, tensor] : from.tensors()) {
    out.push_back({.key = key, .dtype = tensor.dtype, .shape = tensor.shape, .boxes = {}});
    for (const DcpBox& box : tensor.boxes)
      out.back().boxes.push_back({box.slice.offset, box.slice.size, elements_of(from, key, box)});
  }
  return out;
}

inline DcpEntry& dcp_entry(std::vector<DcpEntry>& entries, const std::string& key) {
  const auto found = std::ranges::find(entries, key, &DcpEntry::key);
  REQUIRE(found != entries.end());
  return *found;
}

inline void write_dcp_entries(const std::vector<DcpEntry>& entries, const std::string& folder) {
  DcpWriter writer(folder);
  for (const DcpEntry& entry : entries) {
    const std::size_t number = writer.add_tensor(entry.key, entry.dtype, entry.shape);
    for (const DcpEntry::Box& box : entry.boxes) writer.write_box(number, box.offset, box.size, box.elements);
  }
  writer.finish();
}

}  // namespace mtl::test
