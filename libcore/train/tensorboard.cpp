#include "train/tensorboard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/host_name.h"
#include "base/protobuf.h"
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

/// Serializes wall_time and step, which every event starts with.
std::string event_head(double wall_time, std::int64_t step) {
  return cat("\x09", to_little_endian(std::bit_cast<std::uint64_t>(wall_time), 8), integer_field(2, step));
}

constexpr std::string_view kStart = "\x08\x01";  // a serialized SessionLog {status: START}

constexpr const char* kEventFilePrefix = "events.out.tfevents.";
constexpr const char* kSamplesMark = " vs samples";

/// Returns the folder's event files in the order in which TensorBoard reads them.
std::vector<std::string> event_files(const std::string& directory) {
  std::vector<std::string> paths;
  for (const std::string& name : list_names(directory)) {
    if (starts_with(name, kEventFilePrefix)) paths.push_back(cat(directory, "/", name));
  }
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

/// An event in a file: a START, or a summary.
struct SavedEvent {
  std::int64_t step = 0;
  bool is_start = false, is_summary = false, is_by_samples = false;
};

/// Empty if `data` is not an Event.
std::optional<SavedEvent> parse_event(std::string_view data) {
  SavedEvent event;
  const bool is_event = passes([&] {
    while (!data.empty()) {
      const ProtobufField field = take_field(data);
      if (field.is(2, ProtobufField::varint)) event.step = static_cast<std::int64_t>(field.value);
      if (field.number == 5) event.is_summary = true;
      if (field.number == 5) event.is_by_samples = field.bytes.find(kSamplesMark) != std::string_view::npos;
      if (field.number == 7) event.is_start = field.bytes == kStart;
    }
    return true;
  });
  return is_event ? std::optional(event) : std::nullopt;
}

/// Calls each(event, record) for the records in an event file, up to the first damaged one.
template <class Each>
void for_each_event(std::string_view file, const Each& each) {
  constexpr std::size_t kFrame = 16;  // a record's bytes besides its data
  while (file.size() >= kFrame) {
    const std::uint64_t bytes = from_little_endian(file.substr(0, 8));
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
  const std::string length = to_little_endian(data.size(), 8);
  return cat(length, to_little_endian(mask(crc32c(length)), 4), data, to_little_endian(mask(crc32c(data)), 4));
}

std::string scalars_event(double wall_time, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    const std::string single = to_little_endian(std::bit_cast<std::uint32_t>(float(value)), 4);
    summary += bytes_field(1, cat(bytes_field(1, tag), "\x15", single));
  }
  return event_head(wall_time, step) + bytes_field(5, summary);
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
  std::string records = tensorboard_record(event_head(wall_time(), iteration + 1) + bytes_field(7, kStart));
  for (const Point& point : by_samples) {
    if (point.step > iteration && point.step <= samples) records += point.record;
  }
  return records;
}

EventFile::EventFile(const std::string& directory, std::int64_t iteration, std::int64_t samples)
    : file_(create(directory)) {
  const std::string version = event_head(wall_time(), 0) + bytes_field(3, "brain.Event:2");
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
