// The newest figures of a run in Prometheus' text format, in a file that the node exporter's textfile collector reads:
//
//   # TYPE mtl_train_lm_loss gauge
//   mtl_train_lm_loss{run="5f0c2ad1b9a3e874"} 9.5
//
// Figures of evaluations have their type in the name: mtl_train_validation_loss.
// Format: https://prometheus.io/docs/instrumenting/exposition_formats/ (text format 0.0.4).
#pragma once

#include <map>
#include <string>

#include "base/json.h"

namespace mtl {

class MetricsTextfile {
 public:
  /// `run` is the label of all figures. Writes nothing yet.
  MetricsTextfile(std::string path, std::string run) : path_(std::move(path)), run_(std::move(run)) {}

  /// Replaces the file by one with the numbers of all lines so far, of which the newest counts. `line` is an object as
  /// in the JSON lines. A reader finds the old file or the new one. Throws Error(io).
  void write(const Json& line);

 private:
  std::string path_, run_;
  std::map<std::string, std::map<std::string, double>> newest_;  // by name, without mtl_train_, and labels
};

}  // namespace mtl
