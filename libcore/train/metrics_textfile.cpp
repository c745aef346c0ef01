#include "train/metrics_textfile.h"

#include <cmath>

#include "base/files.h"
#include "base/str.h"

namespace mtl {

namespace {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return format("%.17g", value);
}

std::string label(const char* name, const std::string& value) {
  std::string escaped;
  for (char c : value) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return cat(name, "=\"", escaped, "\"");
}

}  // namespace

void MetricsTextfile::write(const Json& line) {
  const std::string& type = line.at("type").as_string();
  std::string labels = label("run", run_);
  if (const Json* set = line.find("set")) labels += "," + label("set", set->as_string());
  for (const auto& [key, value] : line.as_object()) {
    if (!value.is_number()) continue;
    const bool is_place = key == "iteration" || key == "consumed_samples";
    if (type == "step" || !is_place) newest_[type == "step" ? key : cat(type, "_", key)][labels] = value.as_number();
  }
  std::string text;
  for (const auto& [name, by_labels] : newest_) {
    text += cat("# TYPE mtl_train_", name, " gauge\n");
    for (const auto& [of, value] : by_labels) text += cat("mtl_train_", name, "{", of, "} ", number_text(value), "\n");
  }
  make_directories(parent_folder(path_));
  OutputFile file(path_ + ".tmp");  // not synced: a crash of the machine may lose what the next report writes again
  file.write(text);
  file.close();
  rename_path(file.path(), path_);
}

}  // namespace mtl
