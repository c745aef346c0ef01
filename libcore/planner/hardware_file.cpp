#include "planner/hardware_file.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/files.h"
#include "base/json_cursor.h"
#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr const char* kSchema = "mtl-hardware/1";

/// A string in the file. Its path names the objects around it: "memory.size.value".
struct Entry {
  std::string text;
  std::size_t line;
};

class HardwareFile {
 public:
  HardwareFile(std::string_view text, const std::string& where) : text_(text), where_(where), cursor_(text) {
    try {
      read_object("");
      cursor_.finish();
    } catch (const Error& error) {
      if (!error.where().empty()) throw;
      fail_line(line(), error.what());
    }
  }

  /// Removes and returns a string. Fails if it is missing or empty.
  Entry take(const std::string& path) {
    const auto found = entries_.find(path);
    if (found == entries_.end()) fail_line(line_of_parent(path), cat("\"", path, "\" is missing"));
    Entry out = found->second;
    if (out.text.empty()) fail_line(out.line, cat("\"", path, "\" is empty"));
    entries_.erase(found);
    return out;
  }

  /// True if this object is in the file.
  bool has(const std::string& path) const { return object_lines_.contains(path); }

  /// Removes and returns a quantity in this unit (empty: an integer). Its source must be given.
  double take_quantity(const std::string& path, std::string_view unit, const Bounds& bounds) {
    const Entry entry = take(path + ".value");
    std::string_view number = entry.text;
    std::string_view given;
    if (const std::size_t space = number.find(' '); space != std::string_view::npos) {
      given = number.substr(space + 1);
      number = number.substr(0, space);
    }
    const std::string shown = cat("\"", path, "\" is \"", entry.text, "\"");
    const std::optional<double> value = parse_float(number);
    if (!value || (unit.empty() && *value != std::floor(*value)))
      fail_line(entry.line, cat(shown, "; write ", unit.empty() ? "an integer" : cat("a number and ", unit)));
    if (given != unit)
      fail_line(entry.line, cat(shown, "; write it ", unit.empty() ? "without a unit" : cat("in ", unit)));
    if (const std::string objection = bounds.objection(*value); !objection.empty())
      fail_line(entry.line, cat(shown, "; it ", objection));
    sources_.push_back(cat(path, " ", entry.text, ": ", take(path + ".source").text));
    return *value;
  }

  /// Returns "PATH VALUE: SOURCE" of every quantity taken.
  const std::vector<std::string>& sources() const { return sources_; }

  /// Fails if a string is left.
  void expect_all_taken() const {
    if (entries_.empty()) return;
    const auto first = std::ranges::min_element(entries_, {}, [](const auto& entry) { return entry.second.line; });
    fail_line(first->second.line, cat("\"", first->first, "\" is not known; remove it or correct its name"));
  }

  [[noreturn]] void fail_line(std::size_t line, const std::string& message) const {
    fail_at(Exit::bad_data, where_, "line ", line, ": ", message);
  }

 private:
  void read_object(const std::string& path) {
    object_lines_[path] = line();
    cursor_.enter('{');
    while (cursor_.next_item('}')) {
      const std::string child = cat(path, path.empty() ? "" : ".", cursor_.key());
      const char next = cursor_.peek();
      const std::size_t at = line();
      if (next == '{') {
        if (object_lines_.contains(child)) fail_line(at, cat("\"", child, "\" occurs twice"));
        read_object(child);
      } else if (next == '"') {
        if (!entries_.emplace(child, Entry{std::string(cursor_.string()), at}).second)
          fail_line(at, cat("\"", child, "\" occurs twice"));
      } else {
        fail_line(at, cat("\"", child, "\" is neither an object nor text in quotes, such as \"80 GB\""));
      }
    }
  }

  std::size_t line() const { return 1 + std::ranges::count(text_.substr(0, cursor_.offset()), '\n'); }

  /// Returns the line of the innermost object on the way to `path`.
  std::size_t line_of_parent(std::string path) const {
    while (!path.empty()) {
      const std::size_t dot = path.rfind('.');
      path = dot == std::string::npos ? "" : path.substr(0, dot);
      if (const auto found = object_lines_.find(path); found != object_lines_.end()) return found->second;
    }
    return 1;
  }

  std::string_view text_;
  const std::string& where_;
  JsonCursor cursor_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::size_t> object_lines_;  // by path
  std::vector<std::string> sources_;
};

}  // namespace

Machine parse_hardware(std::string_view text, const std::string& where) {
  HardwareFile file(text, where);
  Machine out;
  out.origin = where;
  if (const Entry schema = file.take("schema"); schema.text != kSchema)
    file.fail_line(schema.line, cat("\"schema\" is \"", schema.text, "\"; this version reads ", kSchema));
  // It becomes a part of scripts and pictures.
  const Entry name = file.take("name");
  if (printable_text(name.text) != name.text)
    file.fail_line(name.line, "\"name\" has characters that cannot be printed, such as a line break; remove them");
  out.device.name = name.text;
  out.device.source = where;
  constexpr Bounds kRate = kRateBounds, kLatency = kLatencyBounds;
  double devices = 0;
  struct Quantity {
    const char* path;
    const char* unit;
    Bounds bounds;
    double& value;
  };
  const auto take_all = [&](std::initializer_list<Quantity> quantities) {
    for (const Quantity& each : quantities) each.value = file.take_quantity(each.path, each.unit, each.bounds);
  };
  const auto take_efficiency = [&](const std::string& path, Efficiency& shares) {
    for (const auto& [name, share] :
         {std::pair("gemm", &shares.gemm), std::pair("attention_forward", &shares.attention_forward),
          std::pair("attention_backward", &shares.attention_backward), std::pair("memory", &shares.memory)})
      *share = 0.01 * file.take_quantity(cat(path, ".", name), "%", {.least = 1e-6, .most = 100});
  };
  take_all({{"peak.bf16", "TFLOP/s", kRate, out.device.tflops_16},
            {"peak.tf32", "TFLOP/s", kRate, out.device.tflops_tf32},
            {"peak.fp32", "TFLOP/s", kRate, out.device.tflops_f32},
            {"memory.size", "GB", kRate, out.device_gb},
            {"memory.bandwidth", "GB/s", kRate, out.device.dram_gbs}});
  take_efficiency("efficiency", out.efficiency);
  if (file.has("efficiency.mtl")) take_efficiency("efficiency.mtl", out.mtl_efficiency.emplace());
  take_all({{"launch", "us", kLatency, out.launch_us},
            {"links.inside.bandwidth", "GB/s", kRate, out.links.inside_gbs},
            {"links.inside.latency", "us", kLatency, out.links.inside_us},
            {"links.between.bandwidth", "GB/s", kRate, out.links.between_gbs},
            {"links.between.latency", "us", kLatency, out.links.between_us},
            {"links.host.bandwidth", "GB/s", kRate, out.links.host_gbs},
            {"devices_per_node", "", {.least = 1, .most = 1024}, devices}});
  out.devices_per_node = static_cast<int>(devices);
  out.sources = file.sources();
  file.expect_all_taken();
  return out;
}

Machine read_hardware(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  if (const std::uint64_t bytes = file_size(path); bytes > kMostBytes)
    fail_at(Exit::bad_data, path, "has ", human_bytes(bytes), ", too many for a hardware file; see share/hardware");
  return parse_hardware(read_regular_file(path), path);
}

}  // namespace mtl
