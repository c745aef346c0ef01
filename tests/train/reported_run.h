// A run that only reports, and the records of its event files, for tests.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/str.h"
#include "train/metrics.h"
#include "train/tensorboard.h"

namespace mtl::test {

inline Console quiet_console = [] {
  Console console("reported_run");
  console.silent = console.quiet = true;
  return console;
}();

inline MetricsOptions quiet_options(const std::string& folder) {
  MetricsOptions options;
  options.terminal = false;
  options.log_jsonl = folder + "/run.jsonl";
  return options;
}

/// Reports iterations first..last, with a validation at each multiple of 4.
inline void train(Metrics& metrics, std::int64_t first, std::int64_t last) {
  for (std::int64_t k = first; k <= last; ++k) {
    IntervalReport report{.iteration = k, .train_iterations = 10, .consumed_samples = 8 * k};
    report.lm_loss = 1.0 / static_cast<double>(k) + 0.1;
    report.learning_rate = 1e-3 / 3;
    metrics.report(report);
    if (k % 4 == 0) metrics.report(ValidationReport{.iteration = k, .consumed_samples = 8 * k, .loss = 2.5});
  }
}

inline std::string hex(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += format("%02x", static_cast<unsigned char>(byte));
  return out;
}

inline std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t at = bytes.size(); at-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at]);
  return value;
}

/// Returns the payloads in an event file. Checks every checksum.
inline std::vector<std::string> read_records(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    std::string data(file.substr(12, little_endian(file.substr(0, 8))));
    std::string record = tensorboard_record(data);
    CHECK(record == file.substr(0, record.size()));
    records.push_back(data);
    file.remove_prefix(std::min(file.size(), record.size()));
  }
  return records;
}

}  // namespace mtl::test
