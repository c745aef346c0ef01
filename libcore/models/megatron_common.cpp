#include "models/megatron_common.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/str.h"
#include "formats/tensor_file.h"
#include "formats/whole_number.h"

namespace mtl {

namespace {

constexpr const char* kCommonFile = "common.pt";
constexpr const char* kCommonObject = "common_state/shard_0_1";

/// The layouts of the distributed optimizer's state, by megatron-core's names.
constexpr std::string_view kKnownLayouts[] = {"fully_sharded_model_space", "fully_sharded_bucket_space",
                                              "fully_reshardable", "dp_reshardable", "dp_zero_gather_scatter"};

/// Throws unless checkpoint_version is missing or 3, the only one that Megatron-LM has written in this format.
void check_version(const std::string& where, PickleValue root) {
  const std::optional<PickleValue> version = root.find_not_none("checkpoint_version");
  if (!version) return;
  const bool is_number = version->is(PickleKind::integer) || version->is(PickleKind::real);
  if (!is_number || version->as_number() != 3)
    fail_at(Exit::bad_data, where, "checkpoint_version is ",
            is_number ? cat(version->as_number()) : printable_text(version->describe()),
            ", but mtl reads only 3 in torch_dist checkpoints; load the checkpoint with the Megatron-LM that saved it, "
            "and save it with --ckpt-format torch");
}

}  // namespace

std::int64_t steps_in_optimizer(const TorchArchive& archive, PickleValue optimizer) {
  if (const auto inner = optimizer.find("optimizer"); inner && inner->is(PickleKind::dict)) optimizer = *inner;
  std::int64_t steps = 0;
  if (const auto state = optimizer.find("state")) steps = steps_in(archive, *state, "common_step");
  const std::optional<PickleValue> groups = optimizer.find("param_groups");
  for (std::size_t i = 0; groups && groups->is(PickleKind::list) && i < groups->size(); ++i)
    steps = std::max(steps, steps_in(archive, groups->at(i), "step"));
  return steps;
}

MegatronCommon::MegatronCommon(const DcpFolder& folder) {
  where_ = cat(folder.path(), "/", kCommonFile);
  if (file_exists(where_)) {
    file_ = MappedFile(where_);
    with_prefix([&] { archive_ = std::make_unique<TorchArchive>(file_.bytes(), kCheckpointRemedy); }, where_, ": ");
    root_ = archive_->root();
  } else {
    const auto object = folder.objects().find(kCommonObject);
    if (object == folder.objects().end())
      fail_at(Exit::bad_data, where_, "the file is missing, and the folder has no entry '", kCommonObject,
              "' in its place; copy all files of the checkpoint");
    archive_ = folder.open_object(object->first, object->second);
    where_ = cat(folder.file_of(object->second), ": the archive of '", kCommonObject, "'");
    root_ = archive_->root();
    if (root_->is(PickleKind::list) && root_->size() == 1) root_ = root_->at(0);
  }
  if (!root_->is(PickleKind::dict))
    fail_at(Exit::bad_data, where_, "the common state is ", root_->describe(), " instead of a dict", kDamagedRemedy);
  const std::optional<PickleValue> args = root_->find("args");
  if (args && !args->is(PickleKind::object))
    fail_at(Exit::bad_data, where_, "args are ", args->describe(), " instead of a Namespace", kDamagedRemedy);
  check_version(where_, *root_);
}

void MegatronCommon::check_layout() const {
  const std::optional<PickleValue> metadata = root_->find("content_metadata"), optimizer = root_->find("optimizer");
  const std::pair<std::optional<PickleValue>, const char*> statements[] = {{metadata, "distrib_optim_sharding_type"},
                                                                           {optimizer, "param_state_sharding_type"}};
  for (const auto& [dict, key] : statements) {
    const std::optional<PickleValue> layout = dict ? dict->find_not_none(key) : std::nullopt;
    if (!layout) continue;
    const std::string name = layout->is(PickleKind::text) ? std::string(layout->as_text()) : layout->describe();
    if (std::ranges::find(kKnownLayouts, name) == std::end(kKnownLayouts))
      fail_at(Exit::bad_data, where_, "the optimizer state is in the layout ", printable_text(name.substr(0, 100)),
              " (", key, "), but mtl reads only ", join(kKnownLayouts, ", ", cat<std::string_view>),
              "; save the checkpoint with --dist-ckpt-optim-fully-reshardable");
  }
}

std::optional<PickleValue> MegatronCommon::args() const { return root_->find("args"); }

std::int64_t MegatronCommon::optimizer_steps() const {
  const std::optional<PickleValue> optimizer = root_->find("optimizer");
  return optimizer ? steps_in_optimizer(*archive_, *optimizer) : 0;
}

}  // namespace mtl
