// Detects the small text files that Git leaves in place of large files whose contents Git LFS has not downloaded.
//
// read_file(), MappedFile (files.h) and StoredFile (text/stored_file.h), through which all readers of formats get their
// bytes, call this. A reader of safetensors, say, would report a header of 2336927755350992246 bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace mtl {

/// The file is only missing: whoever treats damage must not treat it as damaged.
class LfsPointerError : public Error {
 public:
  using Error::Error;
};

/// A pointer is shorter than this (Git LFS's specification).
inline constexpr std::size_t kLfsPointerBytes = 1024;

/// `head`: the file's first bytes, at least kLfsPointerBytes or the entire file. Throws LfsPointerError (bad_data) that
/// names `path` if they are a Git LFS pointer. `subject` begins the message: whether the file itself is the pointer.
void refuse_lfs_pointer(const std::string& path, std::string_view head, std::string_view subject = "this is");

}  // namespace mtl
