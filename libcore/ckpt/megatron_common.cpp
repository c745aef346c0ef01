#include "ckpt/megatron_common.h"

#include <cstring>

#include "base/error.h"
#include "base/str.h"
#include "ckpt/tensor_file.h"

namespace mtl {

namespace {

constexpr const char* kCommonFile = "common.pt";
constexpr const char* kCommonObject = "common_state/shard_0_1";

/// Returns the steps that a value states: an integer, an integral number, or a tensor of one. 0 for everything else.
std::int64_t steps_of(const TorchArchive& archive, const std::optional<PickleValue>& value) {
  constexpr double kMost = 9e15;
  if (!value) return 0;
  if (value->is(PickleKind::integer)) return value->as_int();
  double number = 0;
  if (value->is(PickleKind::real)) number = value->as_number();
  if (const TorchTensor* tensor = archive.tensor(*value); tensor != nullptr && tensor->count() == 1) {
    std::int64_t integer = 0;
    float real = 0;
    if (tensor->dtype == StoredDType::i64) {
      std::memcpy(&integer, tensor->data.data(), sizeof integer);
      return integer;
    }
    if (tensor->dtype == StoredDType::f32) std::memcpy(&real, tensor->data.data(), sizeof real);
    number = real;
  }
  return number >= 0 && number < kMost ? static_cast<std::int64_t>(number) : 0;
}

}  // namespace

std::int64_t steps_in_optimizer(const TorchArchive& archive, PickleValue optimizer) {
  if (const auto inner = optimizer.find("optimizer"); inner && inner->is(PickleKind::dict)) optimizer = *inner;
  std::int64_t steps = 0;
  if (const auto state = optimizer.find("state")) steps = steps_of(archive, state->find("common_step"));
  const std::optional<PickleValue> groups = optimizer.find("param_groups");
  for (std::size_t i = 0; groups && groups->is(PickleKind::list) && i < groups->size(); ++i)
    steps = std::max(steps, steps_of(archive, groups->at(i).find("step")));
  return steps;
}

MegatronCommon::MegatronCommon(const DcpFolder& folder) {
  std::string where = cat(folder.path(), "/", kCommonFile);
  if (file_exists(where)) {
    file_ = MappedFile(where);
    with_prefix([&] { archive_ = std::make_unique<TorchArchive>(file_.bytes(), kCheckpointRemedy); }, where, ": ");
    root_ = archive_->root();
  } else {
    const auto object = folder.objects().find(kCommonObject);
    if (object == folder.objects().end())
      fail_at(Exit::bad_data, where, "the file is missing, and the folder has no entry '", kCommonObject,
              "' in its place; copy all files of the checkpoint");
    archive_ = folder.open_object(object->first, object->second);
    where = cat(folder.file_of(object->second), ": the archive of '", kCommonObject, "'");
    root_ = archive_->root();
    if (root_->is(PickleKind::list) && root_->size() == 1) root_ = root_->at(0);
  }
  if (!root_->is(PickleKind::dict))
    fail_at(Exit::bad_data, where, "the common state is ", root_->describe(), " instead of a dict", kDamagedRemedy);
  const std::optional<PickleValue> args = root_->find("args");
  if (args && !args->is(PickleKind::object))
    fail_at(Exit::bad_data, where, "args are ", args->describe(), " instead of a Namespace", kDamagedRemedy);
}

std::optional<PickleValue> MegatronCommon::args() const { return root_->find("args"); }

std::int64_t MegatronCommon::optimizer_steps() const {
  const std::optional<PickleValue> optimizer = root_->find("optimizer");
  return optimizer ? steps_in_optimizer(*archive_, *optimizer) : 0;
}

}  // namespace mtl
