// Writes TensorBoard event files.
//
// A file is a sequence of records (tensorflow/core/lib/io/record_writer.cc). Each record contains one protobuf Event
// (tensorboard/compat/proto/event.proto), of which we use only these fields:
//
//   record    u64le length | u32le mask(crc32c(length)) | data | u32le mask(crc32c(data))
//   mask(c)   ((c >> 15) | (c << 17)) + 0xa282ead8
//   Event     1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary
//   Summary   repeated 1: Value {1: string tag, 2: float simple_value}
//
// A file's first event is file_version "brain.Event:2". A resumed run writes a new file. Repeated iterations appear in
// both files, with the same values. (TensorBoard's SessionLog could discard the older values. But it selects values
// just by step, and `vs samples` tags use sample counts as steps, so it would discard nearly all values with these
// tags.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/log_sink.h"

namespace mtl {

/// Returns the CRC-32C (Castagnoli), as in RFC 3720, appendix B.4.
std::uint32_t crc32c(std::string_view data);

/// Returns the record that contains `data`.
std::string tensorboard_record(std::string_view data);

/// One summary: all values of one step.
using Scalars = std::vector<std::pair<std::string, double>>;

/// Returns a serialized Event with scalars (stored as float).
std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars);

class EventFile {
 public:
  /// Creates DIRECTORY/events.out.tfevents.TIME.HOST.PID.N (and the folder), and writes the first record. On failure,
  /// throws Error(io) and leaves no file behind.
  explicit EventFile(const std::string& directory);

  /// Writes each step's scalars with the current time. Writes either all of them or none. Throws Error(io).
  void add(const std::vector<std::pair<std::int64_t, Scalars>>& steps);
  void sync() { file_.sync(); }
  const std::string& path() const { return file_.path(); }

 private:
  LogFile file_;
};

}  // namespace mtl
