#include "train/wandb_run.h"

#include <ctime>
#include <span>
#include <utility>

#include "base/crc32.h"
#include "base/protobuf.h"

namespace mtl {

namespace {

constexpr std::string_view kFileHeader(":W&B\xe1\xbe\x00", 7);
constexpr std::size_t kBlock = 32768, kFragmentHeader = 7;
enum Fragment { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
enum RecordType { kHistory = 2, kSummary = 3, kRun = 17, kExit = 18 };

std::string fragment(std::string_view data, int type) {
  const std::string typed = cat(static_cast<char>(type), data);
  const std::uint32_t crc = crc32(std::as_bytes(std::span(typed)));
  return cat(to_little_endian(crc, 4), to_little_endian(data.size(), 2), typed);
}

/// Returns an object's entries as Items.
std::string items(const Json& object) {
  std::string out;
  for (const auto& [key, value] : object.as_object())
    out += bytes_field(1, bytes_field(1, key) + bytes_field(16, value.dump()));
  return out;
}

/// Returns the first field of a message with this number, or else an empty one.
ProtobufField field_of(std::string_view message, std::uint64_t number) {
  ProtobufField field;
  const auto is_found = [&] {
    while (field.number != number) field = take_field(message);
    return true;
  };
  return passes(is_found) ? field : ProtobufField();
}

/// Moves `at` behind the next record in a file, and returns the record. Empty if it is incomplete or damaged.
std::string take_record(std::string_view file, std::size_t& at) {
  std::string out;
  while (true) {
    if (kBlock - at % kBlock < kFragmentHeader) at += kBlock - at % kBlock;
    if (at + kFragmentHeader > file.size()) return "";
    const std::string_view data = file.substr(at + kFragmentHeader, from_little_endian(file.substr(at + 4, 2)));
    const int type = file[at + 6];
    const std::string found = fragment(data, type);
    if (file.substr(at, found.size()) != found) return "";
    at += found.size();
    out += data;
    if (type == kWhole || type == kLast) return out;
  }
}

void truncate(const std::string& path, std::uint64_t bytes) {
  std::error_code error;
  fs::resize_file(path, bytes, error);
  if (error) fail_at(Exit::io, path, "cannot remove old rows: ", error.message());
}

void rewind_sessions(const std::string& directory, const LogStart& from) {
  for (const std::string& session : list_names(directory)) {
    const std::string path = cat(directory, "/", session, "/run-", from.run, ".wandb");
    if (!is_regular_file(path) || file_exists(path + ".synced")) continue;
    const std::string file = read_regular_file(path);
    const std::size_t kept = wandb_bytes_until(file, from.iteration);
    if (kept < file.size()) truncate(path, kept);
  }
}

/// Creates the session's folder, and returns the path of its file, which contains the start: wandb refuses to upload
/// anything from a directory in which a file has none.
std::string create_session(const WandbOptions& options, const LogStart& from, const Json& config) {
  const std::string directory = options.save_dir + "/wandb";
  rewind_sessions(directory, from);
  std::string folder;
  std::time_t start = std::time(nullptr) - 1;
  do {  // a new one, even if a session has begun in the same second
    ++start;
    folder = cat(directory, "/offline-run-", time_text(start, "%Y%m%d_%H%M%S"), "-", from.run);
  } while (file_exists(folder));
  const std::string path = cat(folder, "/run-", from.run, ".wandb");
  try {
    make_directories(folder + "/files");
    write_file_atomic(path,
                      cat(kFileHeader, wandb_bytes(wandb_start(options, from.run, config, start), kFileHeader.size())));
  } catch (const Error&) {
    std::error_code ignored;  // we report the first error
    fs::remove_all(folder, ignored);
    throw;
  }
  return path;
}

}  // namespace

std::string wandb_bytes(std::string_view record, std::uint64_t size) {
  std::string out;
  bool is_first = true;
  do {
    std::size_t room = kBlock - (size + out.size()) % kBlock;
    if (room < kFragmentHeader) out.append(std::exchange(room, kBlock), '\0');
    const std::string_view part = record.substr(0, room - kFragmentHeader);
    record.remove_prefix(part.size());
    out += fragment(part, is_first ? (record.empty() ? kWhole : kFirst) : (record.empty() ? kLast : kMiddle));
    is_first = false;
  } while (!record.empty());
  return out;
}

std::string wandb_start(const WandbOptions& options, const std::string& run, const Json& config, std::int64_t start) {
  return bytes_field(
      kRun, cat(bytes_field(1, run), bytes_field(2, options.entity), bytes_field(3, options.project),
                bytes_field(4, items(config)), bytes_field(8, options.name), bytes_field(17, integer_field(1, start))));
}

std::vector<std::string> wandb_row(std::int64_t step, const Json& row) {
  const std::string figures = items(row);
  return {bytes_field(kHistory, figures + bytes_field(2, integer_field(1, step))), bytes_field(kSummary, figures)};
}

std::string wandb_exit(std::int64_t code) { return bytes_field(kExit, integer_field(1, code)); }

std::size_t wandb_bytes_until(std::string_view file, std::int64_t step) {
  std::size_t kept = kFileHeader.size(), at = kept;
  for (std::string record = take_record(file, at); !record.empty(); record = take_record(file, at)) {
    const ProtobufField number = field_of(field_of(field_of(record, kHistory).bytes, 2).bytes, 1);
    if (static_cast<std::int64_t>(number.value) > step) break;
    kept = at;
  }
  return kept;
}

WandbRun::WandbRun(const WandbOptions& options, const LogStart& from, const Json& config)
    : began_(wall_time()), file_(create_session(options, from, config)) {}

void WandbRun::add(std::int64_t step, const Scalars& figures) {
  if (step == step_) {
    if (file_size(file_.path()) > row_at_) truncate(file_.path(), row_at_);  // unless another session has cut it
  } else {
    const double now = wall_time();
    row_ = Json::object({{"_step", step}, {"_timestamp", now}, {"_runtime", now - began_}});
    row_at_ = file_size(file_.path());
    step_ = step;
  }
  for (const auto& [name, value] : figures) row_.set(name, value);
  write(wandb_row(step, row_));
}

void WandbRun::write(const std::vector<std::string>& records) {
  const std::uint64_t size = file_size(file_.path());
  std::string bytes;
  for (const std::string& record : records) bytes += wandb_bytes(record, size + bytes.size());
  file_.write(bytes);
}

}  // namespace mtl
