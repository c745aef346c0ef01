// Records the system calls by which this process changes a folder. recorder.cpp replaces libc's open, write, fsync,
// rename, unlink and so on in the whole test program, also for libstdc++'s std::filesystem.
//
// In the program that contains it, fsync and fdatasync do nothing but being recorded: its states come from the record.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mtl::test {

/// A call that succeeded. Files and folders are named by their inode numbers, which may be used again after a removal.
struct Call {
  enum class Kind {
    create,    // `node` appears in `folder` as `name`; with no name, it is a file without one (O_TMPFILE)
    write,     // `data` at `offset` of `node`
    truncate,  // `node` to `offset` bytes
    sync,      // `node`: a file's data, or a folder's entries
    rename,    // `name` in `folder` to `to_name` in `to_folder`
    exchange,  // these two names
    remove,    // `name` from `folder`
    mapped,    // `node` is mapped to be written, which this record cannot follow
    mark,      // the operation has returned; `offset` says what it promised
  };
  Kind kind{};
  std::uint64_t node = 0, folder = 0, to_folder = 0;
  std::string name = {}, to_name = {};
  std::uint64_t offset = 0;
  std::string data = {};
  bool is_folder = false;  // of create
  std::string path = {};   // of sync, for messages; relative to the recorded folder
};

/// A file or folder as it was before the recording. The first one is the recorded folder, whose parent is itself.
struct InitialEntry {
  std::uint64_t node = 0, folder = 0;
  std::string name, data;
  bool is_folder = false;
};

struct Record {
  std::vector<InitialEntry> before;
  std::vector<Call> calls;
};

/// Records until the destructor. Only one can exist.
class Recorder {
 public:
  /// Everything in `folder` counts as durable.
  explicit Recorder(const std::string& folder);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  /// Records that the operation has promised `progress`.
  void mark(std::int64_t progress);
  Record take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtl::test
