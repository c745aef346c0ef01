// Writes a run of Weights & Biases, which its own program uploads: `wandb sync DIRECTORY/wandb/offline-run-*`.
//
// A session has a folder, offline-run-YYYYMMDD_HHMMSS-ID with the local time of its start, and in it run-ID.wandb and
// an empty folder, files, into which wandb writes. The file is a log as in LevelDB
// (github.com/google/leveldb/blob/main/doc/log_format.md), but with zlib's CRC, and the first block has a header:
//
//   header    ":W&B" | u16le 0xBEE1 | u8 version 0
//   record    one or several fragments, of which none crosses the end of a block of 32 KiB; 0 where none fits
//   fragment  u32le crc32(type, data) | u16le length | u8 type: 1 whole record, 2 first, 3 middle, 4 last part | data
//
// Each record contains a protobuf Record (wandb/proto/wandb_internal.proto), of which we use only these fields:
//
//   Record    one of 2: history {1: Item, 2: {1: int64 step}}, 3: summary {1: Item}, 17: run, 18: exit {1: int32 code}
//   run       1: run_id, 2: entity, 3: project, 4: config {1: Item}, 8: display_name, 17: start_time {1: int64 seconds}
//   Item      1: string key, 16: string JSON
//
// A step has one row of history, because wandb moves a second one to the next step: figures that come later replace the
// row, which a reader that follows the file cannot see. The summary is the newest value of each figure.
//
// The sessions of a run have one id; wandb appends their rows in the order of start_time. It does not drop those that a
// resumed session repeats, so the session removes them, unless a file run-ID.wandb.synced says that wandb has uploaded
// them.
#pragma once

#include <vector>

#include "base/json.h"
#include "run/options.h"
#include "train/log_rewind.h"
#include "train/tensorboard.h"

namespace mtl {

/// Returns the bytes that append a record to a file of `size` bytes.
std::string wandb_bytes(std::string_view record, std::uint64_t size);

/// Return Records. `config` and `row` are objects; `start` is in seconds since 1970.
std::string wandb_start(const WandbOptions& options, const std::string& run, const Json& config, std::int64_t start);
std::vector<std::string> wandb_row(std::int64_t step, const Json& row);
std::string wandb_exit(std::int64_t code);

/// Returns how many bytes of a file come before the first row of a later step, and before the first record that is
/// incomplete or damaged.
std::size_t wandb_bytes_until(std::string_view file, std::int64_t step);

class WandbRun {
 public:
  /// Removes the rows after from.iteration from the run's folders in options.save_dir/wandb, and creates a folder.
  /// Throws Error(io).
  WandbRun(const WandbOptions& options, const LogStart& from, const Json& config);

  /// Writes figures. If the step has others, the row of all of them replaces theirs. Throws Error(io).
  void add(std::int64_t step, const Scalars& figures);
  /// Writes that the process will exit with `code`. Without this, the run counts as failed. Throws Error(io).
  void finish(std::int64_t code) { write({wandb_exit(code)}); }
  void sync() { file_.sync(); }

 private:
  void write(const std::vector<std::string>& records);

  double began_;  // in seconds since 1970
  LogFile file_;
  std::int64_t step_ = -1;  // of the last row
  Json row_;
  std::uint64_t row_at_ = 0;  // where the last row begins
};

}  // namespace mtl
