// Writes TensorBoard event files.
//
// A file is a sequence of records (tensorflow/core/lib/io/record_writer.cc). Each record contains one protobuf Event
// (tensorboard/compat/proto/event.proto), of which we use only these fields:
//
//   record    u64le length | u32le mask(crc32c(length)) | data | u32le mask(crc32c(data))
//   mask(c)   ((c >> 15) | (c << 17)) + 0xa282ead8
//   Event     1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary summary, 7: SessionLog session_log
//   Summary   repeated 1: Value {1: string tag, 2: float simple_value}
//   SessionLog  1: enum status, START = 1
//
// A file's first event is file_version "brain.Event:2". A resumed run writes a new file. If an earlier session went
// beyond the iteration at which it resumes, its event START at the first new iteration makes TensorBoard drop every
// point from that step on. TensorBoard compares just the steps, but a `vs samples` tag counts samples, so most of its
// points would be lost with them. Those that are still valid are therefore written again after START.
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

/// Returns the records with which a session that starts after `iteration` iterations and `samples` samples begins its
/// event file in `directory`: none if the folder's files have no points beyond, else START and the points to repeat.
std::string restart_records(const std::string& directory, std::int64_t iteration, std::int64_t samples);

class EventFile {
 public:
  /// Creates DIRECTORY/events.out.tfevents.TIME.HOST.PID.0 (and the folder), whose name sorts after all others there,
  /// because TensorBoard reads the files in this order. Writes the version and the restart_records(). On failure,
  /// throws Error(io) and leaves no file behind.
  EventFile(const std::string& directory, std::int64_t iteration, std::int64_t samples);

  /// Writes each step's scalars with the current time. Writes either all of them or none. Throws Error(io).
  void add(const std::vector<std::pair<std::int64_t, Scalars>>& steps);
  void sync() { file_.sync(); }
  const std::string& path() const { return file_.path(); }

 private:
  LogFile file_;
};

}  // namespace mtl
