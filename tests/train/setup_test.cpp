// Checks of a run that open no files: where its data come from, and what cuDNN's attention supports.
#include "train/setup.h"

#include <doctest/doctest.h>

#include <functional>

using namespace mtl;

namespace {

using Edit = std::function<void(TrainOptions&)>;

/// Returns the flags that a check reports after an edit of options.
template <class Check>
std::string refused(const Check& check, const Edit& edit) {
  TrainOptions options;
  edit(options);
  std::string out;
  check(options, [&](const std::string& flag, const std::string&) { out += flag + ";"; });
  return out;
}

}  // namespace

TEST_CASE("setup: a run has one source of data") {
  const auto source = [](const Edit& edit) { return refused(check_data_source, edit); };
  CHECK(source([](TrainOptions&) {}) == "--data-path;");
  CHECK(source([](TrainOptions& options) { options.dry_run = true; }) == "");
  CHECK(source([](TrainOptions& options) { options.data.mock = true; }) == "");
  CHECK(source([](TrainOptions& options) { options.data.paths.data_path = {"web"}; }) == "");
  CHECK(source([](TrainOptions& options) { options.data.paths.train_data_path = {"web"}; }) == "");
  CHECK(source([](TrainOptions& options) { options.data.paths.valid_data_path = {"web"}; }) == "--train-data-path;");
  CHECK(source([](TrainOptions& options) {
          options.data.paths.data_path = {"web"};
          options.data.mock = true;
        }) == "--mock-data;");
}

TEST_CASE("setup: what cuDNN's attention does not support is refused on a GPU") {
  const auto refused_on = [](Device device, const Edit& edit) {
    return refused(check_fused_attention, [&](TrainOptions& options) {
      options.attention_backend = "fused";
      options.device = device;
      options.precision.bf16 = true;
      options.attention_dropout = 0;
      edit(options);
    });
  };
  CHECK(refused_on(Device::cuda, [](TrainOptions&) {}) == "");
  const Edit edits[] = {[](TrainOptions& options) { options.precision.bf16 = false; },
                        [](TrainOptions& options) { options.attention_dropout = 0.1; },
                        [](TrainOptions& options) { options.data.reset_attention_mask = true; },
                        [](TrainOptions& options) { options.parallel.context = 2; }};
  for (const Edit& edit : edits) {
    CHECK(refused_on(Device::cuda, edit) == "--attention-backend fused;");
    CHECK(refused_on(Device::cpu, edit) == "");
  }
}
