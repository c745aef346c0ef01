#include "train/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>

#include "base/host_name.h"
#include "base/str.h"
#include "base/utf8.h"

namespace mtl {

namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

std::uint32_t mask(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

template <class T>
void append_little_endian(std::string& out, T value) {
  for (std::size_t at = 0; at < sizeof value; ++at) out += static_cast<char>(value >> (8 * at));
}

// protobuf: each field starts with (number << 3) | type. Type 0 is a varint, type 1 is eight bytes, type 2 is a length
// followed by bytes, and type 5 is four bytes.
void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, int number, int type) { out += static_cast<char>((number << 3) | type); }

void append_integer(std::string& out, int number, std::int64_t value) {
  append_key(out, number, 0);
  append_varint(out, static_cast<std::uint64_t>(value));
}

void append_bytes(std::string& out, int number, std::string_view bytes) {
  append_key(out, number, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

/// Serializes wall_time and step, which every event starts with.
std::string event_head(double wall_time, std::int64_t step) {
  std::uint64_t bits;
  std::memcpy(&bits, &wall_time, sizeof bits);
  std::string out;
  append_key(out, 1, 1);
  append_little_endian(out, bits);
  if (step != 0) append_integer(out, 2, step);
  return out;
}

constexpr std::string_view kStart = "\x08\x01";  // a serialized SessionLog {status: START}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr const char* kEventFilePrefix = "events.out.tfevents.";
constexpr const char* kSamplesMark = " vs samples";

/// Returns the folder's event files in the order in which TensorBoard reads them.
std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;  // ignored: creating our file reports it
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (starts_with(at->path().filename().string(), kEventFilePrefix)) paths.push_back(at->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Returns a name that sorts after the existing ones, even if this session starts in the same second as another.
std::string event_path(const std::string& directory) {
  const std::vector<std::string> existing = event_files(directory);
  const std::string newest = existing.empty() ? "" : fs::path(existing.back()).filename().string();
  const std::size_t prefix = std::string_view(kEventFilePrefix).size();
  const auto name_at = [&](std::int64_t seconds) {
    return format("%s%010lld.%s.%d.0", kEventFilePrefix, static_cast<long long>(seconds), host_name().c_str(),
                  static_cast<int>(::getpid()));
  };
  auto seconds = static_cast<std::int64_t>(wall_time());
  if (!newest.empty()) seconds = std::max(seconds, parse_int(newest.substr(prefix, 10)).value_or(0));
  if (name_at(seconds) <= newest) ++seconds;
  return cat(directory, "/", name_at(seconds));
}

/// Removes a varint from the front of `data`. Empty if it is incomplete.
std::optional<std::uint64_t> take_varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !data.empty(); shift += 7) {
    const std::uint64_t byte = byte_of(data.front());
    data.remove_prefix(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// An event in a file: a START, or a summary.
struct SavedEvent {
  std::int64_t step = 0;
  bool is_start = false, is_summary = false, is_by_samples = false;
};

/// Empty if `data` is not an Event.
std::optional<SavedEvent> parse_event(std::string_view data) {
  SavedEvent event;
  while (!data.empty()) {
    const auto key = take_varint(data);
    if (!key) return std::nullopt;
    const std::uint64_t number = *key >> 3, type = *key & 7;
    std::optional<std::uint64_t> bytes = type == 1 ? 8 : 4, value;
    if (type == 0) bytes = (value = take_varint(data)) ? std::optional<std::uint64_t>(0) : std::nullopt;
    if (type == 2) bytes = take_varint(data);
    if (!bytes || *bytes > data.size() || (type > 2 && type != 5)) return std::nullopt;
    const std::string_view content = data.substr(0, *bytes);
    data.remove_prefix(*bytes);
    if (number == 2 && value) event.step = static_cast<std::int64_t>(*value);
    if (number == 5) event.is_summary = true;
    if (number == 5) event.is_by_samples = content.find(kSamplesMark) != std::string_view::npos;
    if (number == 7) event.is_start = content == kStart;
  }
  return event;
}

/// Calls each(event, record) for the records in an event file, up to the first damaged one.
template <class Each>
void for_each_event(std::string_view file, const Each& each) {
  constexpr std::size_t kFrame = 16;  // a record's bytes besides its data
  while (file.size() >= kFrame) {
    std::uint64_t bytes;
    std::memcpy(&bytes, file.data(), sizeof bytes);
    if (bytes > file.size() - kFrame) return;
    const std::string_view record = file.substr(0, bytes + kFrame), data = record.substr(12, bytes);
    if (tensorboard_record(data) != record) return;
    if (const auto event = parse_event(data)) each(*event, record);
    file.remove_prefix(record.size());
  }
}

LogFile create(const std::string& directory) {
  make_directories(directory);
  return LogFile(event_path(directory));
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = ~0u;
  for (char byte : data) crc = (crc >> 8) ^ kTable[(crc ^ byte_of(byte)) & 0xff];
  return ~crc;
}

std::string tensorboard_record(std::string_view data) {
  std::string out;
  append_little_endian(out, std::uint64_t{data.size()});
  append_little_endian(out, mask(crc32c(out)));
  out += data;
  append_little_endian(out, mask(crc32c(data)));
  return out;
}

std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    auto single = float(value);
    std::uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    std::string item;
    append_bytes(item, 1, tag);
    append_key(item, 2, 5);
    append_little_endian(item, bits);
    append_bytes(summary, 1, item);
  }
  std::string out = event_head(wall_time, step);
  append_bytes(out, 5, summary);
  return out;
}

std::string restart_records(const std::string& directory, std::int64_t iteration, std::int64_t samples) {
  struct Point {
    std::int64_t step;
    std::string record;
  };
  std::vector<Point> by_samples;  // in the order in which TensorBoard adds them
  std::int64_t last_iteration = 0;
  const auto drop_from = [&](std::int64_t step) {
    std::erase_if(by_samples, [step](const Point& point) { return point.step >= step; });
    last_iteration = std::min(last_iteration, step - 1);
  };
  for (const std::string& path : event_files(directory)) {
    for_each_event(read_regular_file(path), [&](const SavedEvent& event, std::string_view record) {
      if (event.is_start) drop_from(event.step);
      if (!event.is_summary) return;
      if (event.is_by_samples)
        by_samples.push_back({event.step, std::string(record)});
      else
        last_iteration = std::max(last_iteration, event.step);
    });
  }
  const bool goes_beyond =
      last_iteration > iteration ||
      std::any_of(by_samples.begin(), by_samples.end(), [samples](const Point& point) { return point.step > samples; });
  if (!goes_beyond) return "";
  std::string start = event_head(wall_time(), iteration + 1);
  append_bytes(start, 7, kStart);
  std::string records = tensorboard_record(start);
  for (const Point& point : by_samples) {
    if (point.step > iteration && point.step <= samples) records += point.record;
  }
  return records;
}

EventFile::EventFile(const std::string& directory, std::int64_t iteration, std::int64_t samples)
    : file_(create(directory)) {
  std::string version = event_head(wall_time(), 0);
  append_bytes(version, 3, "brain.Event:2");
  try {
    file_.write(tensorboard_record(version) + restart_records(directory, iteration, samples));
  } catch (const Error&) {
    std::error_code ignored;  // we report the first error
    fs::remove(path(), ignored);
    throw;
  }
}

void EventFile::add(const std::vector<std::pair<std::int64_t, Scalars>>& steps) {
  std::string records;
  for (const auto& [step, scalars] : steps) records += tensorboard_record(scalars_event(wall_time(), step, scalars));
  file_.write(records);
}

}  // namespace mtl
