// Checks the rules of the .idx format. IndexedDataset rejects files that violate a rule.
//
// The checks run in this order: header, counts, each sequence's length and pointer, size of the .bin, documents. The
// first violation is reported with its byte offset in the file. Intact files are checked at memory speed, in
// branch-free blocks. Only a block with a violation is checked again, entry by entry.
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

/// A violated rule. The message reads "FILE: what (byte N); remedy".
class BrokenRule : public Error {
 public:
  struct Violation {
    std::string rule;  // a stable identifier: "header-size", "magic", "version", "type", "counts", "length",
                       // "pointer", "bin-size", "documents", "modes", "integers", "vocabulary", "provenance", "hash"
    std::string file;  // path
    std::optional<std::uint64_t> offset{};  // byte offset of the wrong value; nullopt: concerns the entire file
  };
  BrokenRule(Violation violation, const std::string& what, std::string_view remedy)
      : Error(Exit::bad_data,
              cat(violation.file, ": ", what, violation.offset ? cat(" (byte ", *violation.offset, ")") : "", remedy)),
        violation_(std::move(violation)) {}
  const Violation& violation() const { return violation_; }

 private:
  Violation violation_;
};

/// The header's contents, and the results of the checks.
struct IndexSummary {
  DataType type{};
  std::int64_t sequences = 0, documents = 0, tokens = 0;
  bool has_modes = false;
};

/// Checks an .idx and its .bin against every rule of the format. Throws BrokenRule for the first violation.
IndexSummary check_index(const MappedFile& idx, const MappedFile& bin);
/// Same, but the pointers may differ from the sound ones by multiples of 2^32.
IndexSummary check_index_without_wraps(const MappedFile& idx, const MappedFile& bin);

}  // namespace mtl
