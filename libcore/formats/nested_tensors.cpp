#include "formats/nested_tensors.h"

#include <set>

#include "base/printable.h"

namespace mtl {

namespace {

constexpr int kMaxDepth = 8;
constexpr const char* kNestingRemedy = "; save the model again with torch.save, as its state_dict() returns it";

class Collector {
 public:
  explicit Collector(const TorchFile& file) : file_(file) {}

  void visit(PickleValue dict, const std::string& prefix, int depth) {
    if (!visited_.insert(dict.number()).second || depth > kMaxDepth)
      fail_at(Exit::bad_data, file_.path(), "the dict '", printable_text(prefix), "' of the model ",
              depth > kMaxDepth ? cat("is nested deeper than ", kMaxDepth, " levels") : "occurs twice", kNestingRemedy);
    for (std::size_t i = 0; i < dict.size(); ++i) {
      const PickleValue key = dict.key(i), value = dict.value(i);
      if (!key.is(PickleKind::text))
        fail_at(Exit::bad_data, file_.path(), "a key in the model's dict is ", key.describe(), " instead of a string",
                kNestingRemedy);
      const std::string name = cat(prefix, prefix.empty() ? "" : ".", key.as_text());
      if (value.is(PickleKind::dict)) {
        visit(value, name, depth + 1);
      } else if (const TorchTensor* tensor = file_.tensor(value); tensor != nullptr) {
        found.push_back({name, tensor});
      }
    }
  }

  std::vector<NestedTensor> found;

 private:
  const TorchFile& file_;
  std::set<std::uint32_t> visited_;
};

}  // namespace

std::vector<NestedTensor> nested_tensors(const TorchFile& file, PickleValue dict, const std::string& prefix) {
  Collector collector(file);
  collector.visit(dict, prefix, 0);
  return std::move(collector.found);
}

}  // namespace mtl
