// The rules of the .idx format, checked one after another; the reader of token files (data/indexed_dataset.h) opens
// nothing that breaks one.
//
// The order of the checks is that of the file: header, counts, lengths and pointers sequence by sequence, the size of
// the .bin, documents. The first broken rule is the one reported, with the byte of the file where it shows. Sound files
// are checked at the speed of memory, in blocks without a branch; only a block that is broken is gone through again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace mtl {

class MappedFile;
enum class DataType : std::uint8_t;

/// A broken rule. Its message is "FILE: what (byte N); remedy".
class BrokenRule : public Error {
 public:
  struct Place {
    std::string rule;  // a word that stays: "header-size", "magic", "version", "type", "counts", "length",
                       // "pointer", "bin-size", "documents", "modes", "integers", "vocabulary", "provenance", "hash"
    std::string file;  // its path
    std::optional<std::uint64_t> offset{};  // of the wrong value, in bytes; empty if it is the whole file
  };
  BrokenRule(Place place, const std::string& what, std::string_view remedy)
      : Error(Exit::bad_data,
              cat(place.file, ": ", what, place.offset ? cat(" (byte ", *place.offset, ")") : "", remedy)),
        place_(std::move(place)) {}
  const Place& place() const { return place_; }

 private:
  Place place_;
};

/// The contents of the header, and results of the checks.
struct IndexSummary {
  DataType type{};
  std::int64_t sequences = 0, documents = 0, tokens = 0;
  bool has_modes = false;
};

/// Checks every rule of an .idx against its .bin. Throws BrokenRule.
IndexSummary check_index(const MappedFile& idx, const MappedFile& bin);

}  // namespace mtl
