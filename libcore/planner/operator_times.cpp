#include "planner/operator_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/str.h"

namespace mtl {

namespace {

constexpr std::int64_t kMostThreads = 1024;  // what --threads accepts

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

double amount(const Counters& work) { return work.flops > 0 ? work.flops : work.bytes; }

double non_negative(const Json& object, const char* key) {
  const double number = object.at(key).as_number();
  if (!(number >= 0 && number < 1e300)) fail(Exit::bad_data, key, " is ", number);
  return number;
}

}  // namespace

/// Digits after a letter are part of a type's name, except after the x between the sizes of a product.
OperatorTimes::Operands OperatorTimes::Operands::parse(const std::string& text) {
  Operands out;
  for (std::size_t i = 0; i < text.size();) {
    const bool is_size = is_digit(text[i]) && (i == 0 || text[i - 1] == 'x' || !is_letter(text[i - 1]));
    if (!is_size) {
      do out.kind += text[i++];
      while (i < text.size() && is_digit(text[i]) && is_digit(text[i - 1]));
      continue;
    }
    double size = 0;
    for (; i < text.size() && is_digit(text[i]); ++i) size = 10 * size + (text[i] - '0');
    out.sizes.push_back(size);
  }
  return out;
}

double OperatorTimes::Operands::distance(const Operands& other) const {
  if (kind != other.kind || sizes.size() != other.sizes.size()) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) sum += std::abs(std::log2((sizes[i] + 1) / (other.sizes[i] + 1)));
  return sum;
}

OperatorTimes OperatorTimes::read(const std::string& path) {
  const std::string text = read_file(path);
  const Json profile = with_prefix([&] { return Json::parse(text); }, path, " is not valid JSON: ");
  return with_prefix(
      [&] {
        if (profile.find("rows") == nullptr || profile.find("roofline") == nullptr)
          fail(Exit::bad_data, "is not a profile; give a file rankN.json that mtl-train --profile wrote");
        if (profile.at("version").as_int() != 1)
          fail(Exit::bad_data, "has version ", profile.at("version").as_int(), "; this program reads version 1");
        OperatorTimes out;
        const Json& rates = profile.at("roofline");
        out.device_ = {.name = printable_text(rates.at("name").as_string()),
                       .dram_gbs = non_negative(rates, "gb_per_s"),
                       .tflops_16 = non_negative(rates, "tflops_16"),
                       .tflops_tf32 = non_negative(rates, "tflops_tf32"),
                       .tflops_f32 = non_negative(rates, "tflops_f32"),
                       .source = rates.string_or("source", "")};
        double other_bytes = 0, other_ms = 0, calls = 0;
        for (const Json& each : profile.at("rows").as_array()) {
          const double count = non_negative(each, "calls"), ms = non_negative(each, "ms");
          if (!(count > 0 && ms > 0)) continue;  // too short for the clock
          const Counters work = {.flops = non_negative(each, "flops"), .bytes = non_negative(each, "bytes")};
          out.most_flops_ = std::max(out.most_flops_, work.flops / ms);
          out.most_bytes_ = std::max(out.most_bytes_, work.bytes / ms);
          if (work.flops == 0) {
            other_bytes += work.bytes;
            other_ms += ms;
          }
          calls += count;
          out.rows_[each.at("operator").as_string()].push_back(
              {.operands = Operands::parse(each.string_or("operands", "")),
               .ms = ms / count,
               .work = {.flops = work.flops / count, .bytes = work.bytes / count}});
        }
        const double steps = non_negative(profile, "steps");
        if (out.most_bytes_ == 0 || other_bytes == 0 || steps == 0) fail(Exit::bad_data, "has no operators");
        out.other_bytes_ = other_bytes / other_ms;
        for (const Json& each : profile.at("phases").as_array()) {
          const std::string& phase = each.at("phase").as_string();
          const double rest = non_negative(each, "ms") - non_negative(each, "operators_ms");
          if (phase == "data" || phase == "report" || phase == "other")
            out.outside_ms_ += std::max(0.0, rest) / steps;
          else if (phase != "communication")
            out.between_ms_ += std::max(0.0, rest) / calls;
        }
        return out;
      },
      path, ": ");
}

int OperatorTimes::threads() const {
  const std::vector<std::string> words = split(device_.name, ' ');  // "CPU, 4 threads"
  const std::optional<std::int64_t> count =
      words.size() == 3 && words[0] == "CPU," ? parse_int(words[1]) : std::nullopt;
  return static_cast<int>(std::clamp<std::int64_t>(count.value_or(1), 1, kMostThreads));
}

bool OperatorTimes::has_products(DType dtype) const {
  const auto found = rows_.find("gemm");
  return found != rows_.end() && std::ranges::any_of(found->second, [&](const Row& row) {
           return row.operands.kind.find(name_of(dtype)) != std::string::npos;
         });
}

double OperatorTimes::ms(const std::string& name, const std::string& operands, const Counters& work) const {
  double ms = work.bytes / other_bytes_;
  const auto found = rows_.find(name);
  if (found != rows_.end()) {
    // Operators without operands in their description are compared by their work.
    const Operands wanted = Operands::parse(operands);
    const Row& nearest = *std::ranges::min_element(found->second, {}, [&](const Row& row) {
      return std::pair{row.operands.distance(wanted), std::abs(std::log2((amount(row.work) + 1) / (amount(work) + 1)))};
    });
    if (amount(nearest.work) == 0 || amount(work) == 0) return nearest.ms;
    ms = nearest.ms * amount(work) / amount(nearest.work);
  }
  if (most_flops_ > 0) ms = std::max(ms, work.flops / most_flops_);
  return std::max(ms, work.bytes / most_bytes_);
}

}  // namespace mtl
